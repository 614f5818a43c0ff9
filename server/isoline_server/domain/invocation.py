"""What a model answered to one request of one execution of a node: a value that never changes once it is recorded."""

from dataclasses import dataclass
from enum import IntEnum

from isoline_server.domain.ids import RunId


class EnvelopeKind(IntEnum):
    """Whether the answer is one."""

    VALID = 1
    REFUSAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationPlace:
    """Where an invocation stands. ``key`` is the lower-case hex digest of the request; ``repetition`` counts equal requests of one execution."""

    run_id: RunId
    node_id: str
    execution: int
    key: str
    repetition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A recorded answer. ``response`` and ``cost`` are JSON, verbatim."""

    place: InvocationPlace
    kind: EnvelopeKind
    response: bytes
    cost: bytes
