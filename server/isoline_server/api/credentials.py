"""Who calls: the tenant and the scopes of a credential. The tenant never comes from a request body.

Keys are compared by their SHA-256, so the configuration need not hold them in clear and a look-up's timing says nothing about a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from isoline_server.domain.errors import ScopeMissing, TenantMismatch, Unauthenticated
from isoline_server.domain.ids import RunId, Tenant, parse_run_id


class Scope(StrEnum):
    """What a credential may do (OpenWOP v2 runs.md names the first two). Executors need all four."""

    CREATE = "runs:create"
    READ = "runs:read"
    APPEND = "runs:append"
    EXECUTE = "runs:execute"


ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The tenant a call acts for, and what it may do."""

    tenant: Tenant
    scopes: frozenset[Scope]

    def need(self, scope: Scope) -> None:
        """Raise ``ScopeMissing`` unless the credential has the scope."""
        if scope not in self.scopes:
            raise ScopeMissing(scope.value)

    def own_run(self, text: str, field: str = "run_id") -> RunId:
        """The run id, when it is well formed and the caller's. A foreign one is refused alike, whether the run exists or not."""
        tenant, _ = parse_run_id(text, field)
        if tenant != self.tenant:
            raise TenantMismatch(field)
        return RunId(text)


class Credentials:
    """The known API keys. Without any, everyone is ``anonymous``; the server then listens on loopback only."""

    def __init__(self, callers_by_key_sha256: Mapping[str, Caller], anonymous: Caller | None) -> None:
        self._callers = {bytes.fromhex(digest): caller for digest, caller in callers_by_key_sha256.items()}
        self._anonymous = anonymous

    def caller(self, authorization: str | None) -> Caller:
        """The caller behind an ``authorization`` header. Raises ``Unauthenticated``."""
        if authorization is None:
            if self._anonymous is not None:
                return self._anonymous
            raise Unauthenticated("this server needs a key: send metadata authorization: Bearer <key>")
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not key:
            raise Unauthenticated("the authorization header must be: Bearer <key>")
        found = self._callers.get(sha256(key.encode()).digest())
        if found is None:
            raise Unauthenticated("unknown key")
        return found
