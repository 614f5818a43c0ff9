"""``ctx.http``: requests over HTTP as effects. Each is claimed before it leaves, carries its effect id as idempotency key, and is sent once.

An answer is an answer, whatever its status: 4xx and 5xx say that it was refused, so a retry of the node sends it again. Only a gateway's
(502, 504) says nothing. A connection that never came to be means that nothing left; any other failure leaves the effect in doubt.
"""

import base64
import json as json_text
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from isoline_client.workflow.errors import EffectNotSent, NodeError
from isoline_client.workflow.host import EffectOutcome, EffectTicket
from isoline_client.workflow.values import Json, as_json, as_object, pick

SEAM: Final = "http.request"
TIMEOUT_S: Final = 30.0
"""One request, unless the caller says otherwise."""
GATEWAY_STATUSES: Final = frozenset({502, 504})
"""Said by who stands between: it got no answer either."""
BODY_BYTES_MAX: Final = 256 * 1024
"""Of an answer. It is recorded as JSON in an event of 1 MiB, perhaps in base64, and often once more in the node's outputs."""


class Cause(Protocol):
    """``Context.effect``."""

    def __call__(
        self,
        seam: str,
        provider_key: str,
        request: Json,
        send: Callable[[EffectTicket], Awaitable[EffectOutcome]],
        /,
        *,
        idempotent: bool = ...,
    ) -> Awaitable[EffectOutcome]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """An answer, as it is recorded."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    truncated: bool = False
    """The body was larger than what is recorded; ``content`` is its beginning."""

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """The body, parsed."""
        return json_text.loads(self.content)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    def raise_for_status(self) -> "HttpResponse":
        """Fail the node unless the status is 2xx. A 5xx, 408 or 429 may be tried again."""
        if not self.is_success:
            again = self.status_code >= 500 or self.status_code in (408, 429)
            raise NodeError(
                "isoline.http_status",
                f"the answer has status {self.status_code}",
                retryable=again,
                details={"status": self.status_code},
            )
        return self


class Http:
    """Requests as effects of one execution."""

    def __init__(self, cause: Cause) -> None:
        self._cause = cause

    async def get(self, url: str, **options: Any) -> HttpResponse:
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Any) -> HttpResponse:
        return await self.request("POST", url, **options)

    async def put(self, url: str, **options: Any) -> HttpResponse:
        return await self.request("PUT", url, **options)

    async def patch(self, url: str, **options: Any) -> HttpResponse:
        return await self.request("PATCH", url, **options)

    async def delete(self, url: str, **options: Any) -> HttpResponse:
        return await self.request("DELETE", url, **options)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: Json = None,
        content: str | None = None,
        timeout_s: float = TIMEOUT_S,
        idempotent: bool = False,
        cost: Mapping[str, Json] | None = None,
    ) -> HttpResponse:
        """Send a request, once. ``idempotent``: the other side knows it by its Idempotency-Key, so it may be sent again when the answer was
        lost. ``cost``: what it costs, for the ledger of effects, as ``{"currency": "EUR", "amount": "0.12"}``."""
        described: dict[str, Json] = {
            "method": method.upper(),
            "url": url,
            "headers": {name.lower(): value for name, value in sorted((headers or {}).items())},
            "params": dict(params or {}),
            "json": as_json(json),
            "content": content,
        }
        priced = None if cost is None else as_object(cost)

        async def send(ticket: EffectTicket) -> EffectOutcome:
            status, value = await _send(described, ticket, timeout_s)
            if status in GATEWAY_STATUSES:
                raise ConnectionError(
                    f"a gateway answered {status}: whether the request arrived behind it is not known"
                )
            return EffectOutcome(state="completed", value=value, refused=status >= 400, cost=priced)

        peer = f"{method.upper()} {_peer(url)}"
        outcome = await self._cause(SEAM, peer, described, send, idempotent=idempotent)
        return _response(outcome.value)


def _peer(url: str) -> str:
    """Host and port of a URL, free of credentials, paths and queries."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NodeError("node_config_invalid", "url must be http or https and name a host", retryable=False)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


async def _send(described: Mapping[str, Any], ticket: EffectTicket, timeout_s: float) -> tuple[int, Json]:
    """The answer's status, and what of it is recorded."""
    import httpx

    headers = {"idempotency-key": ticket.idempotency_key, **described["headers"]}
    body = {} if described["json"] is None else {"json": described["json"]}
    try:
        async with (
            httpx.AsyncClient(verify=_tls(), timeout=timeout_s) as client,
            client.stream(
                described["method"],
                described["url"],
                headers=headers,
                params=described["params"] or None,
                content=described["content"],
                **body,
            ) as answer,
        ):
            received, whole = await _body(answer.aiter_bytes())
            recorded = _recorded(answer.status_code, dict(answer.headers), received)
            return answer.status_code, recorded if whole else {**recorded, "truncated": True}
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise EffectNotSent(str(error) or type(error).__name__) from error


async def _body(parts: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """What of the body is recorded, and whether that is all of it."""
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > BODY_BYTES_MAX:
            break
    return bytes(body[:BODY_BYTES_MAX]), len(body) <= BODY_BYTES_MAX


def _recorded(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Json]:
    try:
        content: dict[str, Json] = {"text": body.decode()}
    except UnicodeDecodeError:
        content = {"base64": base64.b64encode(body).decode()}
    return {"status": status, "headers": headers, **content}


def _response(value: Json) -> HttpResponse:
    """The recorded answer. A person who says what came of an effect may leave out what is not known."""
    encoded = pick(value, "base64")
    content = str(pick(value, "text", "")).encode() if encoded is None else base64.b64decode(str(encoded))
    headers, status = pick(value, "headers"), pick(value, "status")
    return HttpResponse(
        status_code=status if isinstance(status, int) else 200,
        headers={name: str(each) for name, each in headers.items()} if isinstance(headers, Mapping) else {},
        content=content,
        truncated=pick(value, "truncated") is True,
    )


@cache
def _tls() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than most requests."""
    return ssl.create_default_context()
