"""A person's word on an effect in doubt. Needs no lease: nobody can have one that would help."""

from isoline_server.domain.effect import Effect, EffectState, ResolveEffectCommand, check_resolved
from isoline_server.domain.errors import EffectNotFound
from isoline_server.operations.carry_out import carry_out
from isoline_server.operations.execution_ports import EffectStore


async def resolve_effect(store: EffectStore, command: ResolveEffectCommand, timeout_s: float) -> Effect:
    """The effect as it is now; its run wants an executor. Raises ``EffectNotFound``, ``EffectTransitionRefused``, ``OutcomeUnknown`` or
    ``StoreUnavailable``."""
    return await carry_out(lambda: _resolve(store, command), timeout_s)


async def _resolve(store: EffectStore, command: ResolveEffectCommand) -> Effect:
    while True:
        done = await store.resolve(command)
        if done is not None:
            return done
        effect = await store.load(command.run_id, command.effect_id)
        if effect is None:
            raise EffectNotFound(command.run_id, command.effect_id)
        if effect.state is not EffectState.IN_DOUBT:
            check_resolved(effect, command)
            return effect
        # It came into doubt between the statement and the look: the statement fits now.
