"""A small shop over HTTP, for the demo's workflow to call: a catalogue, quotes, orders. It knows nothing of logs and events.

::

    GET  /catalogue?search=lamp         {"items": [{"sku", "title"}]}
    GET  /quotes?sku=lamp-1&quantity=2  {"sku", "unitCents", "quotedAt"}
    POST /orders {"sku", "quantity"}    201 {"orderId", "totalCents"}; 409 {"error", "left"} when there are not enough
"""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit


@dataclass(slots=True)
class _Article:
    title: str
    unit_cents: int
    left: int


def _fresh_stock() -> dict[str, _Article]:
    return {
        "paper-a4": _Article("Paper A4, 500 sheets", 449, 40),
        "paper-a3": _Article("Paper A3, 500 sheets", 899, 12),
        "lamp-clamp": _Article("Lamp with a clamp", 1_990, 1),  # the cheapest, and not enough of it
        "lamp-desk": _Article("Lamp for a desk", 2_450, 9),
        "chair-stool": _Article("Chair without a back", 3_200, 5),
        "chair-office": _Article("Chair for an office", 11_900, 4),
    }


class Shop:
    """The stock and the orders. Requests come from several threads."""

    def __init__(self) -> None:
        self.order_requests = 0
        """Requests to order that arrived, whatever became of them: what the outside world saw."""
        self._lock = threading.Lock()
        self._stock = _fresh_stock()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[HTTPStatus, dict[str, Any]]:
        """The status and the body for a request."""
        try:
            match method, path:
                case "GET", "/catalogue":
                    return HTTPStatus.OK, self._found(query["search"])
                case "GET", "/quotes":
                    return HTTPStatus.OK, self._quote(query["sku"])
                case "POST", "/orders":
                    with self._lock:
                        self.order_requests += 1
                    return self._order(str(body["sku"]), int(body["quantity"]))
        except (KeyError, TypeError, ValueError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": f"{error!r}"}
        return HTTPStatus.NOT_FOUND, {"error": "no such page"}

    def _found(self, search: str) -> dict[str, Any]:
        return {"items": [{"sku": sku, "title": each.title} for sku, each in self._stock.items() if search in sku]}

    def _quote(self, sku: str) -> dict[str, Any]:
        return {
            "sku": sku,
            "unitCents": self._stock[sku].unit_cents,
            "quotedAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }

    def _order(self, sku: str, quantity: int) -> tuple[HTTPStatus, dict[str, Any]]:
        with self._lock:
            article = self._stock[sku]
            if article.left < quantity:
                return HTTPStatus.CONFLICT, {"error": "not enough left", "left": article.left}
            article.left -= quantity
        return HTTPStatus.CREATED, {"orderId": secrets.token_hex(6), "totalCents": article.unit_cents * quantity}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: in two, the second waits for the first to be acknowledged
    shop: Shop

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(sent)
        except ValueError:
            body = None
        self._serve(body)

    def _serve(self, body: Any) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        status, answer = self.shop.answer(self.command, url.path, query, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's signature
        """Say nothing: the log of the demo is elsewhere."""


LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class OpenShop:
    """A shop that answers."""

    url: str
    shop: Shop


@contextmanager
def open_shop() -> Iterator[OpenShop]:
    """A shop that is open as long as the block."""
    shop = Shop()
    handler = type("Handler", (_Handler,), {"shop": shop})
    with ThreadingHTTPServer((LOOPBACK, 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="shop", daemon=True).start()
        try:
            yield OpenShop(f"http://{LOOPBACK}:{server.server_port}", shop)
        finally:
            server.shutdown()
