"""The world outside, for the drill's workflows to have an effect on: takes orders over HTTP and writes each one it carried out to a file.

``python -m isoline_drill.shop HOST PORT FILE``. A line a request that arrived, before it is answered: what was asked for is known whatever
becomes of the answer. It knows nothing of logs, regions or leases, and it is never killed: it is what a drill's effects are counted by.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

READY = "open"
"""Said on stdout once it listens."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: in two, the second waits for the first to be acknowledged
    ledger: Path
    lock = Lock()

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        with self.lock, self.ledger.open("a", encoding="utf-8") as ledger:
            ledger.write(f"{sent['effect']}\n")
        data = json.dumps({"carriedOut": sent["effect"]}).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's signature
        """Say nothing: what counts is in the ledger."""


def main(host: str, port: int, ledger: Path) -> None:
    """Be open until killed."""
    ledger.touch()
    _Handler.ledger = ledger
    with ThreadingHTTPServer((host, port), _Handler) as server:
        server.daemon_threads = True
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
