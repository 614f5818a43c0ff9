"""External effects: which state may follow which, and who may move them (guarantee G10).

::

    (none) ──claim──▶ claimed ──▶ outbound ──▶ completed
                        ▲  │          │ ├────▶ failed ──claim: the next attempt──▶ claimed
                        │  └▶ failed  │ └────▶ in doubt ──a person──▶ completed or failed
                        └─claim: the next epoch, same attempt
                                      └──claim under a later epoch──▶ in doubt

What is outbound may have happened. So nobody but the holder of the lease it left under may say what became of it, and once that lease is
lost only a person may. Nothing moves an effect from ``completed``.

Pure: rules here say what a call would do. That it does so only while its lease is the run's newest, and the effect is what the rule was
asked about, is the statement's affair.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from isoline_server.domain.errors import EffectIdentityReused, EffectTransitionRefused
from isoline_server.domain.ids import RunId, Tenant


class EffectState(IntEnum):
    """What is known of an effect."""

    CLAIMED = 1
    OUTBOUND = 2
    COMPLETED = 3
    FAILED = 4
    IN_DOUBT = 5


ADVANCES: Final[Mapping[EffectState, frozenset[EffectState]]] = {
    EffectState.OUTBOUND: frozenset({EffectState.CLAIMED}),
    EffectState.COMPLETED: frozenset({EffectState.OUTBOUND}),
    EffectState.FAILED: frozenset({EffectState.CLAIMED, EffectState.OUTBOUND}),
    EffectState.IN_DOUBT: frozenset({EffectState.OUTBOUND}),
}
"""Where the holder of the lease may bring an effect, and from which states."""

RESOLUTIONS: Final = frozenset({EffectState.COMPLETED, EffectState.FAILED})
"""What a person may say of an effect in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An effect as it stood at one moment. JSON is kept as bytes, verbatim; empty: there is none."""

    run_id: RunId
    effect_id: str
    node_id: str
    visit: int
    ordinal: int
    seam: str
    provider_key: str
    request_digest: bytes
    state: EffectState
    attempt: int
    lease_epoch: int
    draws: bytes
    outcome: bytes
    cost: bytes
    first_claimed_at_us: int
    claimed_at_us: int
    outbound_at_us: int | None
    ended_at_us: int | None
    resolved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEffectCommand:
    """A request to claim an effect, checked for shape. The draws of the first claim count."""

    tenant: Tenant
    run_id: RunId
    lease_epoch: int
    effect_id: str
    node_id: str
    visit: int
    ordinal: int
    seam: str
    provider_key: str
    request_digest: bytes
    draws: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceEffectCommand:
    """A request of the lease's holder to move its effect on, checked for shape."""

    run_id: RunId
    lease_epoch: int
    effect_id: str
    attempt: int
    to: EffectState
    outcome: bytes
    cost: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveEffectCommand:
    """A person's word on an effect in doubt, checked for shape."""

    run_id: RunId
    effect_id: str
    to: EffectState
    outcome: bytes
    resolved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change of an effect, and what it must be for it. An empty ``cost`` leaves what was said before."""

    sources: frozenset[EffectState]
    source_attempt: int
    source_epoch: int
    state: EffectState
    attempt: int
    lease_epoch: int
    outcome: bytes = b""
    cost: bytes = b""

    def fits(self, effect: Effect) -> bool:
        """Whether the effect is what this changes."""
        place = (effect.attempt, effect.lease_epoch)
        return effect.state in self.sources and place == (self.source_attempt, self.source_epoch)

    @property
    def needs_live_lease(self) -> bool:
        """A request may leave only while nobody else can have claimed the run: an epoch alone would not tell until somebody has."""
        return self.state is EffectState.OUTBOUND


def is_granted(effect: Effect, lease_epoch: int) -> bool:
    """Whether the holder of this epoch may send the effect."""
    return effect.state is EffectState.CLAIMED and effect.lease_epoch == lease_epoch


def decide_claim(effect: Effect, command: ClaimEffectCommand) -> Move | None:
    """What a claim does to an effect that exists; None: nothing, it is answered as it stands. Raises ``EffectIdentityReused``."""
    if effect.request_digest != command.request_digest:
        raise EffectIdentityReused(command.run_id, command.effect_id)
    later = command.lease_epoch > effect.lease_epoch
    match effect.state:
        case EffectState.CLAIMED if later:
            return _claim(effect, command, EffectState.CLAIMED, effect.attempt)
        case EffectState.FAILED:
            return _claim(effect, command, EffectState.CLAIMED, effect.attempt + 1)
        case EffectState.OUTBOUND if later:
            return _claim(effect, command, EffectState.IN_DOUBT, effect.attempt)
        case _:
            return None


def _claim(effect: Effect, command: ClaimEffectCommand, state: EffectState, attempt: int) -> Move:
    return Move(
        sources=frozenset({effect.state}),
        source_attempt=effect.attempt,
        source_epoch=effect.lease_epoch,
        state=state,
        attempt=attempt,
        # What went out stays with the epoch it left under.
        lease_epoch=command.lease_epoch if state is EffectState.CLAIMED else effect.lease_epoch,
    )


def advance(command: AdvanceEffectCommand) -> Move:
    """What an advance does to an effect that it fits."""
    return Move(
        sources=ADVANCES[command.to],
        source_attempt=command.attempt,
        source_epoch=command.lease_epoch,
        state=command.to,
        attempt=command.attempt,
        lease_epoch=command.lease_epoch,
        outcome=command.outcome,
        cost=command.cost,
    )


def check_advanced(effect: Effect, command: AdvanceEffectCommand) -> None:
    """Return when the effect is what an earlier call like this one made of it; else raise ``EffectTransitionRefused``."""
    ours = (effect.attempt, effect.lease_epoch) == (command.attempt, command.lease_epoch)
    if not ours or (effect.state, effect.outcome) != (command.to, command.outcome):
        raise _refused(effect, command.to)


def check_resolved(effect: Effect, command: ResolveEffectCommand) -> None:
    """Return when the effect is what an earlier call like this one made of it; else raise ``EffectTransitionRefused``."""
    said = (effect.state, effect.outcome, effect.resolved_by)
    if said != (command.to, command.outcome, command.resolved_by):
        raise _refused(effect, command.to)


def _refused(effect: Effect, to: EffectState) -> EffectTransitionRefused:
    return EffectTransitionRefused(
        effect.run_id, effect.effect_id, effect.state.name.lower(), effect.attempt, to.name.lower()
    )
