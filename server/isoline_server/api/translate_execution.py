"""Wire to command, result to wire, for the execution service: shape checks against the limits, and nothing else.

As in ``translate``, every check names the field and the limit, and happens before anything is done.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from isoline.v1 import execution_service_pb2 as pb
from isoline_server.api import translate
from isoline_server.api.credentials import Caller
from isoline_server.api.page_tokens import read_token, write_token
from isoline_server.domain import limits
from isoline_server.domain.chain import DIGEST_BYTES
from isoline_server.domain.effect import (
    ADVANCES,
    RESOLUTIONS,
    AdvanceEffectCommand,
    ClaimEffectCommand,
    Effect,
    EffectState,
    ResolveEffectCommand,
)
from isoline_server.domain.errors import InvalidField, PageTokenInvalid, TenantMismatch, TooLarge
from isoline_server.domain.ids import Region, check_name
from isoline_server.domain.invocation import EnvelopeKind, Invocation, InvocationPlace
from isoline_server.domain.lease import ClaimCommand, Claimed, Lease, LeaseRef, ReleaseCommand
from isoline_server.operations.execution_ports import EffectListing, EffectQuery

_INT32_MAX: Final = 2**31 - 1
_EFFECT_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.EFFECT_ID_CHARS_MAX}}}")
_KEY = re.compile(r"[0-9a-f]{64}")


# -- wire to command -----------------------------------------------------------------------------------------------------------------


def claim_command(
    request: pb.ClaimRunsRequest, caller: Caller, own_region: Region, homes: Sequence[Region]
) -> ClaimCommand:
    if not request.workflow_ids:
        raise InvalidField("workflow_ids", "must name at least one workflow")
    if len(request.workflow_ids) > limits.CLAIM_WORKFLOWS_MAX:
        raise TooLarge("workflow_ids", len(request.workflow_ids), limits.CLAIM_WORKFLOWS_MAX, "workflows")
    return ClaimCommand(
        tenant=caller.tenant,
        home=translate.home(request.region, own_region, homes, "region"),
        owner=_text(request.owner, "owner", limits.OWNER_CHARS_MAX),
        workflow_ids=tuple(check_name(each, f"workflow_ids[{n}]") for n, each in enumerate(request.workflow_ids)),
        runs_max=_within(request.max_runs, "max_runs", 1, limits.CLAIM_RUNS_MAX),
        ttl_ms=lease_ttl_ms(request.lease_ttl_ms),
    )


def lease_ttl_ms(value: int) -> int:
    return _within(value, "lease_ttl_ms", limits.LEASE_TTL_MS_MIN, limits.LEASE_TTL_MS_MAX)


def lease_refs(request: pb.RenewLeasesRequest, caller: Caller) -> list[LeaseRef]:
    if len(request.leases) > limits.RENEW_LEASES_MAX:
        raise TooLarge("leases", len(request.leases), limits.RENEW_LEASES_MAX, "leases")
    refs = [
        LeaseRef(caller.own_run(each.run_id, f"leases[{n}].run_id"), epoch(each.epoch, f"leases[{n}].epoch"))
        for n, each in enumerate(request.leases)
    ]
    if len({ref.run_id for ref in refs}) < len(refs):
        raise InvalidField("leases", "must name a run once")
    return refs


def release_command(request: pb.ReleaseRunRequest, caller: Caller) -> ReleaseCommand:
    return ReleaseCommand(
        lease=LeaseRef(caller.own_run(request.run_id), epoch(request.epoch, "epoch")),
        seen_head_seq=_within(request.seen_head_seq, "seen_head_seq", -1, limits.SEQ_MAX),
        wake_in_ms=_within(request.wake_in_ms, "wake_in_ms", 0, limits.WAKE_IN_MS_MAX)
        if request.HasField("wake_in_ms")
        else None,
    )


def claim_effect_command(request: pb.ClaimEffectRequest, caller: Caller) -> ClaimEffectCommand:
    if len(request.request_digest) != DIGEST_BYTES:
        raise InvalidField(
            "request_digest", f"must be {DIGEST_BYTES} bytes", got=f"{len(request.request_digest)} bytes"
        )
    return ClaimEffectCommand(
        tenant=caller.tenant,
        run_id=caller.own_run(request.run_id),
        lease_epoch=epoch(request.lease_epoch, "lease_epoch"),
        effect_id=_effect_id(request.effect_id),
        node_id=check_name(request.node_id, "node_id"),
        visit=_within(request.visit, "visit", 1, limits.SEQ_MAX),
        ordinal=_within(request.ordinal, "ordinal", 0, limits.SEQ_MAX),
        seam=_text(request.seam, "seam", limits.SEAM_CHARS_MAX),
        provider_key=_text(request.provider_key, "provider_key", limits.PROVIDER_KEY_CHARS_MAX),
        request_digest=request.request_digest,
        draws=_json(request.draws, "draws", limits.EFFECT_DRAWS_BYTES_MAX),
    )


def advance_effect_command(request: pb.AdvanceEffectRequest, caller: Caller) -> AdvanceEffectCommand:
    return AdvanceEffectCommand(
        run_id=caller.own_run(request.run_id),
        lease_epoch=epoch(request.lease_epoch, "lease_epoch"),
        effect_id=_effect_id(request.effect_id),
        attempt=_within(request.attempt, "attempt", 1, _INT32_MAX),
        to=_state(request.to, "to", frozenset(ADVANCES)),
        outcome=_json(request.outcome, "outcome", limits.EFFECT_OUTCOME_BYTES_MAX),
        cost=_json(request.cost, "cost", limits.COST_BYTES_MAX),
    )


def resolve_effect_command(request: pb.ResolveEffectRequest, caller: Caller) -> ResolveEffectCommand:
    return ResolveEffectCommand(
        run_id=caller.own_run(request.run_id),
        effect_id=_effect_id(request.effect_id),
        to=_state(request.to, "to", RESOLUTIONS),
        outcome=_json(request.outcome, "outcome", limits.EFFECT_OUTCOME_BYTES_MAX),
        resolved_by=_text(request.resolved_by, "resolved_by", limits.RESOLVED_BY_CHARS_MAX),
    )


def effect_query(request: pb.ListEffectsRequest, caller: Caller) -> EffectQuery:
    states = frozenset(_state(each, f"states[{n}]", frozenset(EffectState)) for n, each in enumerate(request.states))
    if not request.run_id and not states:
        raise InvalidField("states", "must name at least one state when no run is named")
    return EffectQuery(
        tenant=caller.tenant,
        run_id=caller.own_run(request.run_id) if request.run_id else None,
        states=states,
        node_id=check_name(request.node_id, "node_id") if request.node_id else "",
    )


def invocation(message: pb.Invocation, caller: Caller) -> Invocation:
    if message.kind not in (pb.ENVELOPE_KIND_VALID, pb.ENVELOPE_KIND_REFUSAL):
        raise InvalidField("invocation.kind", "must be ENVELOPE_KIND_VALID or ENVELOPE_KIND_REFUSAL")
    return Invocation(
        place=invocation_place(message, caller, "invocation."),
        kind=EnvelopeKind(message.kind),
        response=_json(message.response, "invocation.response", limits.INVOCATION_RESPONSE_BYTES_MAX),
        cost=_json(message.cost, "invocation.cost", limits.COST_BYTES_MAX),
    )


def invocation_place(
    message: pb.Invocation | pb.GetInvocationRequest, caller: Caller, prefix: str = ""
) -> InvocationPlace:
    if _KEY.fullmatch(message.key) is None:
        raise InvalidField(f"{prefix}key", "must be 64 lower-case hexadecimal digits", got=message.key[:200])
    return InvocationPlace(
        run_id=caller.own_run(message.run_id, f"{prefix}run_id"),
        node_id=check_name(message.node_id, f"{prefix}node_id"),
        execution=_within(message.execution, f"{prefix}execution", 1, limits.SEQ_MAX),
        key=message.key,
        repetition=_within(message.repetition, f"{prefix}repetition", 0, _INT32_MAX),
    )


def epoch(value: int, field: str) -> int:
    """The epoch of a lease that was given."""
    return _within(value, field, 1, limits.SEQ_MAX)


def _effect_id(text: str) -> str:
    if _EFFECT_ID.fullmatch(text) is None:
        rule = f"must be 1 to {limits.EFFECT_ID_CHARS_MAX} characters of [A-Za-z0-9_-]"
        raise InvalidField("effect_id", rule, got=text[:200])
    return text


def _state(value: int, field: str, allowed: frozenset[EffectState]) -> EffectState:
    if value not in allowed:
        names = ", ".join(f"EFFECT_STATE_{state.name}" for state in sorted(allowed))
        raise InvalidField(field, f"must be one of {names}", got=str(value))
    return EffectState(value)


def _within(value: int, field: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InvalidField(field, f"must be from {least} to {most}", got=str(value))
    return value


def _text(text: str, field: str, chars_max: int) -> str:
    """A text for people: the database cannot hold the character 0."""
    if not 1 <= len(text) <= chars_max or "\0" in text:
        raise InvalidField(field, f"must be 1 to {chars_max} characters, none of them 0", got=text[:200])
    return text


def _json(data: bytes, field: str, bytes_max: int) -> bytes:
    """JSON or nothing. It is kept as sent."""
    if len(data) > bytes_max:
        raise TooLarge(field, len(data), bytes_max, "bytes")
    try:
        if data:
            json.loads(data.decode())
    except (ValueError, RecursionError):
        raise InvalidField(field, "must be UTF-8 JSON, or empty") from None
    return data


# -- result to wire ------------------------------------------------------------------------------------------------------------------


def claimed(found: Claimed, ttl_ms: int) -> pb.ClaimRunsResponse:
    return pb.ClaimRunsResponse(
        leases=[lease(each, ttl_ms) for each in found.leases], next_wake_at_us=found.next_wake_at_us
    )


def lease(found: Lease, ttl_ms: int) -> pb.Lease:
    return pb.Lease(
        run_id=found.run_id,
        workflow_id=found.workflow_id,
        epoch=found.epoch,
        expires_at_us=found.expires_at_us,
        ttl_ms=ttl_ms,
    )


def effect(found: Effect) -> pb.Effect:
    return pb.Effect(
        run_id=found.run_id,
        effect_id=found.effect_id,
        node_id=found.node_id,
        visit=found.visit,
        ordinal=found.ordinal,
        seam=found.seam,
        provider_key=found.provider_key,
        request_digest=found.request_digest,
        state=int(found.state),  # type: ignore[arg-type]
        attempt=found.attempt,
        lease_epoch=found.lease_epoch,
        draws=found.draws,
        outcome=found.outcome,
        cost=found.cost,
        claimed_at_us=found.claimed_at_us,
        outbound_at_us=found.outbound_at_us,
        ended_at_us=found.ended_at_us,
        resolved_by=found.resolved_by,
    )


def invocation_out(found: Invocation) -> pb.Invocation:
    return pb.Invocation(
        run_id=found.place.run_id,
        node_id=found.place.node_id,
        execution=found.place.execution,
        key=found.place.key,
        repetition=found.place.repetition,
        kind=int(found.kind),  # type: ignore[arg-type]
        response=found.response,
        cost=found.cost,
    )


# -- page tokens ---------------------------------------------------------------------------------------------------------------------


def effects_token(caller: Caller, query: EffectQuery, after: EffectListing | None) -> str:
    """The token of the next page. Empty when there is none."""
    if after is None:
        return ""
    return write_token(caller, _arguments(query), [after.first_claimed_at_us, after.run_id, after.effect_id])


def effects_listing(token: str, caller: Caller, query: EffectQuery) -> EffectListing | None:
    """Where the token says the list goes on. Raises ``PageTokenInvalid``."""
    if not token:
        return None
    try:
        first_claimed_at_us, run_id, effect_id = read_token(token, caller, _arguments(query))
        if type(first_claimed_at_us) is not int or not 0 <= first_claimed_at_us <= limits.SEQ_MAX:
            raise PageTokenInvalid
        return EffectListing(
            first_claimed_at_us=first_claimed_at_us,
            run_id=caller.own_run(str(run_id), "page_token"),
            effect_id=_effect_id(str(effect_id)),
        )
    except (ValueError, InvalidField, TenantMismatch):
        raise PageTokenInvalid from None


def _arguments(query: EffectQuery) -> str:
    return " ".join(
        ("effects", query.run_id or "", query.node_id, *(str(int(state)) for state in sorted(query.states)))
    )
