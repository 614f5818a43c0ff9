"""An HTTP server that counts what reaches it: the outside world of the tests. It can hold its answers back, or give none at all."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from support.waiting import wait_until


@dataclass(frozen=True)
class Hit:
    method: str
    path: str
    key: str
    """The Idempotency-Key that came with it."""
    body: bytes


@dataclass
class Counting:
    """Counts requests. ``hold`` keeps answers back until ``release``; ``hang_up`` ends a connection without an answer; ``answer`` says
    which status and body a path gets."""

    hits: list[Hit] = field(default_factory=list)
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = threading.Event()
        self._free.set()
        self._hang_up: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def count(self) -> int:
        return len(self.hits)

    def of(self, path: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.path == path]

    def hold(self) -> None:
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    def hang_up(self, path: str, *, on: bool = True) -> None:
        (self._hang_up.add if on else self._hang_up.discard)(path)

    def answer(self, path: str, *answers: tuple[int, Any]) -> None:
        """Answer the path with these in turn, the last one for ever."""
        self.answers[path] = list(answers)

    def wait_for(self, count: int, *, timeout_s: float = 30.0) -> None:
        wait_until(lambda: self.count >= count, timeout_s=timeout_s, what=f"request number {count}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer_of(self, path: str) -> tuple[int, Any]:
        answers = self.answers.get(path)
        if not answers:
            return 200, {"count": self.count, "path": path}
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _handler(self) -> Callable[..., BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.hits.append(Hit(self.command, self.path, self.headers.get("Idempotency-Key", ""), body))
                outer._free.wait()
                if self.path in outer._hang_up:
                    self.close_connection = True
                    return
                status, value = outer._answer_of(self.path)
                data = json.dumps(value).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True  # whoever asked was killed meanwhile

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815 - names of the standard library

            def log_message(self, *args: Any) -> None:
                """Not a word."""

        return Handler
