"""Claim an effect before it leaves, or learn what became of it.

Most effects are new, so that is tried first, and asks one statement. What exists is decided by the rules of ``domain.effect`` and changed by
a statement that fits only what they were asked about; when it has changed meanwhile, they are asked again.
"""

from isoline_server.domain.effect import ClaimEffectCommand, Effect, decide_claim, is_granted
from isoline_server.domain.errors import LeaseLost
from isoline_server.operations.carry_out import carry_out
from isoline_server.operations.execution_ports import EffectStore, Fenced


async def claim_effect(store: EffectStore, command: ClaimEffectCommand, timeout_s: float) -> tuple[bool, Effect]:
    """Whether the caller may send the effect, and the effect. Raises ``LeaseLost``, ``EffectIdentityReused``, ``OutcomeUnknown`` or
    ``StoreUnavailable``."""
    effect = await carry_out(lambda: _claim(store, command), timeout_s)
    return is_granted(effect, command.lease_epoch), effect


async def _claim(store: EffectStore, command: ClaimEffectCommand) -> Effect:
    while True:
        done = _held(await store.insert(command), command)
        if done is not None:
            return done
        effect = await store.load(command.run_id, command.effect_id)
        if effect is None:
            continue
        move = decide_claim(effect, command)
        if move is None:
            return effect
        done = _held(await store.move(command.run_id, command.effect_id, command.lease_epoch, move), command)
        if done is not None:
            return done


def _held(fenced: Fenced, command: ClaimEffectCommand) -> Effect | None:
    if not fenced.held:
        raise LeaseLost(command.run_id, command.lease_epoch)
    return fenced.effect
