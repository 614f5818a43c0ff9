"""A v1 log on its way in: the head that its events come to, and which of them have no v2 form.

Pure: the same documents give the same chain, in whatever batches they come. Not here: reading a document (``legacy``), storing (``operations``).
"""

from dataclasses import dataclass, field

from isoline_server.domain import chain, limits
from isoline_server.domain.append import gap_seqs
from isoline_server.domain.canonical import JsonObject
from isoline_server.domain.errors import Untranslatable
from isoline_server.domain.event import TERMINAL_TYPES, EventContent
from isoline_server.domain.ids import Region, Tenant
from isoline_server.domain.run import ERA_V1, Head


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCommand:
    """A request to take over a v1 run, checked for shape. ``asked_home`` as the caller gave it."""

    tenant: Tenant
    request_id: str
    workflow_id: str
    tags: tuple[str, ...]
    home: Region
    asked_home: str
    content_digest: bytes
    subject: JsonObject
    check_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEvent:
    """A v1 event as it is stored, and as it is hashed: its translation, or, when it has none (``refusal``), the stored bytes."""

    stored: bytes
    record: bytes
    workflow_id: str
    content: EventContent | None
    refusal: Untranslatable | None


@dataclass(slots=True)
class ImportedLog:
    """The log as far as it came. ``workflow_id`` is what its first event names."""

    head: Head = field(default_factory=lambda: Head(era=ERA_V1))
    workflow_id: str = ""
    untranslatable_events: int = 0
    untranslatable: list[Untranslatable] = field(default_factory=list)
    untranslatable_seq: int | None = None

    def add(self, event: TakenEvent) -> None:
        """Take the next event: the chain grows by its record, and the head by what it means."""
        head, seq = self.head, self.head.seq + 1
        if seq == 0:
            self.workflow_id = event.workflow_id
        if event.refusal is not None:
            self.untranslatable_events += 1
            if self.untranslatable_seq is None:
                self.untranslatable_seq = seq
            if len(self.untranslatable) < limits.UNTRANSLATABLE_TOLD_MAX:
                self.untranslatable.append(event.refusal)
        contents = [] if event.content is None else [event.content]
        memory_gap_seq, summary_gap_seq = gap_seqs(head, contents)
        ends = head.terminal_seq is None and any(content.type in TERMINAL_TYPES for content in contents)
        self.head = Head(
            seq=seq,
            digest=chain.extend(head.digest, event.record),
            record_bytes=head.record_bytes + len(event.record),
            terminal_seq=seq if ends else head.terminal_seq,
            memory_gap_seq=memory_gap_seq,
            summary_gap_seq=summary_gap_seq,
            era=ERA_V1,
        )
