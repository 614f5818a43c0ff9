"""Logs as a v1 host wrote them, and their way into a server."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from api.wire import TIMEOUT_S, Wire, request_id
from isoline.v1 import log_service_pb2 as log_pb

GOLDEN = Path(__file__).parents[1] / "golden" / "era2"
SEED_LOG = GOLDEN.joinpath("seed.v1.jsonl").read_bytes().splitlines()
"""The seed log of OpenWOP's conformance suite (its era-2 scenarios): four events, two of them renamed since."""

LEGACY_OWNER = {
    "subject": {
        "issuer": "urn:openwop:legacy",
        "kind": "user",
        "lane": "api-key",
        "subjectId": "legacy",
        "tenant": "local",
    },
    "tenant": "local",
}
STARTED = ("run.started", {"workflowId": "v1-flow", "inputs": {"n": 1}})


def document(seq: int, event_type: str, payload: Any, **members: Any) -> bytes:
    """One v1 event."""
    made = {
        "eventId": f"evt-{seq:04}",
        "type": event_type,
        "payload": payload,
        "timestamp": f"2026-01-15T10:00:{seq % 60:02}.000Z",
        "sequence": seq,
    }
    return json.dumps(made | members).encode()


def v1_log(*events: tuple[str, Any]) -> list[bytes]:
    """A v1 log of (type, payload)."""
    return [document(seq, event_type, payload) for seq, (event_type, payload) in enumerate(events)]


def digest_of(documents: list[bytes]) -> bytes:
    return sha256(b"".join(each + b"\n" for each in documents)).digest()


async def import_into(wire: Wire, documents: list[bytes], *, batch: int = 500, **header: Any) -> Any:
    """Import through the wire, in messages of ``batch`` documents."""
    told = {"request_id": request_id(), "workflow_id": "v1-flow", "content_digest": digest_of(documents), **header}
    messages = [log_pb.ImportRunRequest(header=log_pb.ImportHeader(**told))]
    for start in range(0, len(documents), batch):
        part = log_pb.ImportEvents(documents=documents[start : start + batch])
        messages.append(log_pb.ImportRunRequest(events=part))
    return await wire.log.ImportRun(iter(messages), timeout=TIMEOUT_S, metadata=wire.metadata)
