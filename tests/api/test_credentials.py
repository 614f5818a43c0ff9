"""Keys: who may call, what a key may do, and where a server without keys may listen."""

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import ValidationError

from api.conftest import KEYS
from api.executing import Executing
from api.wire import Wire, event, refused, wire_to
from isoline.v1 import host_service_pb2 as host_pb
from isoline_server.config import Settings
from isoline_server.domain.errors import InvalidField
from support.v1 import SEED_LOG, import_into

URL = "postgresql+psycopg://isoline@127.0.0.1:1/isoline"


@pytest.fixture(scope="module")
async def run_id(guarded):
    async with wire_to(guarded.address, "full") as wire:
        yield await wire.new_run(3)


async def told_with(guarded, authorization):
    """What a caller with this header is told."""
    async with wire_to(guarded.address) as wire:
        wire.metadata = None if authorization is None else (("authorization", authorization),)
        return await refused(wire.create())


@pytest.mark.parametrize(
    "authorization",
    [None, "", "full", "Bearer", "Bearer ", "Basic full", "Bearer nobody", "Bearer Full", "Bearer full "],
    ids=repr,
)
async def test_a_caller_without_a_known_key_is_refused(guarded, authorization):
    told = await told_with(guarded, authorization)
    assert (told.code.name, told.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")


async def test_a_refused_key_is_not_repeated_to_its_sender(guarded):
    assert "my-secret" not in str(await told_with(guarded, "Bearer my-secret"))


async def test_a_stream_without_a_key_is_refused_too(guarded):
    async with wire_to(guarded.address) as wire:
        assert (await refused(wire.tail("acme/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa").read())).code.name == "UNAUTHENTICATED"
        assert (await refused(wire.append_stream(no_requests()).read())).code.name == "UNAUTHENTICATED"


async def no_requests():
    for _ in ():
        yield


async def test_the_scheme_is_written_in_any_case(guarded):
    async with wire_to(guarded.address) as wire:
        wire.metadata = (("authorization", "bearer full"),)
        assert (await wire.create()).run.run_id.startswith("acme/")


CALLS = {
    "create": (["runs:create"], lambda wire, run_id: wire.create()),
    "append": (["runs:append"], lambda wire, run_id: wire.append(run_id, event())),
    "append stream": (["runs:append"], lambda wire, run_id: wire.append_stream(no_requests()).read()),
    "get": (["runs:read"], lambda wire, run_id: wire.get(run_id)),
    "list": (["runs:read"], lambda wire, run_id: wire.list()),
    "read": (["runs:read"], lambda wire, run_id: wire.read(run_id)),
    "tail": (["runs:read"], lambda wire, run_id: wire.tail(run_id).read()),
    "state": (["runs:read"], lambda wire, run_id: wire.state(run_id)),
    "prefix": (["runs:read"], lambda wire, run_id: wire.prefix(run_id)),
    "diff": (["runs:read"], lambda wire, run_id: wire.diff(run_id, run_id)),
    "fork": (["runs:create", "runs:read"], lambda wire, run_id: wire.fork(run_id, 1)),
    "import": (["runs:create", "runs:append"], lambda wire, run_id: import_into(wire, SEED_LOG)),
}


EXECUTION_CALLS = {
    "claim": (["runs:execute"], lambda executing, run_id: executing.claim("flow")),
    "renew": (["runs:execute"], lambda executing, run_id: executing.renew((run_id, 1))),
    "release": (["runs:execute"], lambda executing, run_id: executing.release(run_id, 1)),
    "list effects": (["runs:read"], lambda executing, run_id: executing.effects(run_id)),
    "get invocation": (["runs:read"], lambda executing, run_id: executing.get(run_id)),
}
REFUSED_LATER = {
    "claim effect": (["runs:execute"], "LEASE_LOST", lambda executing, run_id: executing.claim_effect(run_id, 1)),
    "advance effect": (["runs:execute"], "LEASE_LOST", lambda executing, run_id: executing.advance(run_id, 1, 3)),
    "put invocation": (["runs:execute"], "LEASE_LOST", lambda executing, run_id: executing.put(run_id, 1)),
    "resolve": (["runs:append"], "EFFECT_NOT_FOUND", lambda executing, run_id: executing.resolve(run_id)),
}
"""Calls of which a caller with the scope hears that the run is not leased."""


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("call", [*EXECUTION_CALLS, *REFUSED_LATER])
async def test_a_call_of_an_executor_needs_its_scope_and_no_other(guarded, run_id, call, key):
    (scope,), *otherwise, ask = {**EXECUTION_CALLS, **REFUSED_LATER}[call]
    async with wire_to(guarded.address, key) as wire:
        if scope in KEYS[key] and not otherwise:
            await ask(Executing(wire), run_id)
            return
        told = await refused(ask(Executing(wire), run_id))
    assert told.reason == (otherwise[0] if scope in KEYS[key] else "FORBIDDEN")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("call", CALLS)
async def test_a_call_needs_its_scopes_and_no_others(guarded, run_id, call, key):
    needs, ask = CALLS[call]
    missing = [scope for scope in needs if scope not in KEYS[key]]
    async with wire_to(guarded.address, key) as wire:
        if not missing:
            await ask(wire, run_id)
            return
        told = await refused(ask(wire, run_id))
    assert (told.code.name, told.reason, told.metadata["scope"]) == ("PERMISSION_DENIED", "FORBIDDEN", missing[0])


async def test_a_missing_scope_is_said_before_anything_is_said_of_the_run(guarded):
    async with wire_to(guarded.address, "creator") as wire:
        assert (await refused(wire.get("acme/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"))).reason == "FORBIDDEN"


async def test_health_needs_no_key(guarded):
    async with wire_to(guarded.address) as wire:
        answer = await health_pb2_grpc.HealthStub(wire.channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_the_host_service_needs_a_key(guarded):
    async with wire_to(guarded.address) as wire:
        assert (
            await refused(wire.host.GetCapabilities(host_pb.GetCapabilitiesRequest()))
        ).code.name == "UNAUTHENTICATED"


# -- without keys --------------------------------------------------------------------------------------------------------------------


def settings(listen, **more):
    return Settings(leader_url=URL, regions={"eu": {"listen": listen}}, **more)


@pytest.mark.parametrize(
    "listen",
    ["0.0.0.0:7100", "[::]:7100", "192.0.2.1:7100", "example.org:7100", ":7100", "7100", "localhost.example.org:1"],
)
def test_a_server_without_keys_listens_on_loopback_only(listen):
    with pytest.raises(ValidationError, match=r"regions\.eu\.listen"):
        settings(listen)


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:7100", "127.8.9.10:0", "[::1]:7100", "localhost:7100", "unix:/run/isoline.sock"]
)
def test_a_server_without_keys_may_listen_on_loopback(listen):
    assert settings(listen).anonymous.tenant == "local"


def test_a_server_with_keys_may_listen_anywhere_and_knows_no_anonymous():
    made = settings("0.0.0.0:7100", api_keys=[{"sha256": "0" * 64, "tenant": "acme"}])
    assert made.anonymous is None


@pytest.mark.parametrize("tenant", ["", "has a space", "a/b", "x" * 129, "a~b"], ids=repr)
def test_a_key_needs_a_tenant_that_a_run_id_can_hold(tenant):
    with pytest.raises((ValidationError, InvalidField), match="tenant"):
        settings("127.0.0.1:1", api_keys=[{"sha256": "0" * 64, "tenant": tenant}])


@pytest.mark.parametrize("sha256", ["", "secret", "G" * 64, "0" * 63])
def test_a_key_is_configured_by_its_hash_only(sha256):
    with pytest.raises(ValidationError, match="sha256"):
        settings("127.0.0.1:1", api_keys=[{"sha256": sha256, "tenant": "acme"}])


def test_a_key_may_not_have_a_scope_that_there_is_not():
    with pytest.raises(ValidationError, match="scopes"):
        settings("127.0.0.1:1", api_keys=[{"sha256": "0" * 64, "tenant": "acme", "scopes": ["runs:delete"]}])


async def test_without_keys_everybody_is_the_tenant_local(wire: Wire):
    assert (await wire.create()).run.run_id.startswith("local/")
