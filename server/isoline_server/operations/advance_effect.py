"""Move a claimed effect on: outbound before the request leaves, then its outcome.

The statement fits only an effect in a state from which the move is allowed, claimed under this epoch in this attempt. When it does not fit,
either an earlier call like this one was faster, and its answer is given again, or the move is refused.
"""

from isoline_server.domain.effect import AdvanceEffectCommand, Effect, advance, check_advanced
from isoline_server.domain.errors import EffectNotFound, LeaseLost
from isoline_server.operations.carry_out import carry_out
from isoline_server.operations.execution_ports import EffectStore


async def advance_effect(store: EffectStore, command: AdvanceEffectCommand, timeout_s: float) -> Effect:
    """The effect as it is now. Raises ``LeaseLost``, ``EffectNotFound``, ``EffectTransitionRefused``, ``OutcomeUnknown`` or
    ``StoreUnavailable``."""
    return await carry_out(lambda: _advance(store, command), timeout_s)


async def _advance(store: EffectStore, command: AdvanceEffectCommand) -> Effect:
    move = advance(command)
    while True:
        done = await store.move(command.run_id, command.effect_id, command.lease_epoch, move)
        if not done.held:
            raise LeaseLost(command.run_id, command.lease_epoch)
        if done.effect is not None:
            return done.effect
        effect = await store.load(command.run_id, command.effect_id)
        if effect is None:
            raise EffectNotFound(command.run_id, command.effect_id)
        if not move.fits(effect):
            check_advanced(effect, command)
            return effect
        # It came to fit between the statement and the look.
