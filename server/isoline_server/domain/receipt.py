"""The receipt of a change: its key, the hash of the request, and what an earlier call came to (guarantee G8).

Keys are scoped by tenant and operation, so no caller can meet another's. Hashes run over length-prefixed fields of the checked command,
never over re-serialised protobuf, so that a repeat hashes the same with any version of client or server.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from isoline_server.domain.append import AppendCommand
from isoline_server.domain.canonical import canonical
from isoline_server.domain.fork import ForkCommand
from isoline_server.domain.ids import Region, RunId, Tenant
from isoline_server.domain.imported import ImportCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A stored outcome. ``run_id`` for a run that was made; the seqs and the digest for an append."""

    key: bytes
    request_hash: bytes
    run_id: RunId | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    digest: bytes | None = None


def request_key(tenant: Tenant, operation: str, request_id: str) -> bytes:
    """The key of a request id."""
    return _hash(b"request", tenant.encode(), operation.encode(), request_id.encode())


def append_keys(command: AppendCommand) -> tuple[bytes, ...]:
    """The keys an append is known by: its request id and, when it has one, its engine's counter in this run."""
    by_request = request_key(command.tenant, "append", command.request_id)
    if not command.engine:
        return (by_request,)
    by_counter = _hash(b"engine", command.run_id.encode(), command.engine.encode(), b"%d" % command.engine_seq)
    return (by_request, by_counter)


def append_hash(command: AppendCommand) -> bytes:
    """The hash of everything an append asks for, but its request id and its lease epoch: whoever takes a run over repeats the append that its
    predecessor may have made, under its own epoch, and gets the first answer."""
    expected = b"" if command.expected_seq is None else b"%d" % command.expected_seq
    parts = [_fields(command.run_id.encode(), expected, command.engine.encode(), b"%d" % command.engine_seq)]
    for content, causation_id in zip(command.contents, command.causation_ids, strict=True):
        what, node, payload, cause = (
            content.type.encode(),
            content.node_id.encode(),
            content.payload,
            causation_id.encode(),
        )
        parts.append(
            b"%d:%b%d:%b%d %d:%d:%b%d:%b"
            % (
                *(len(what), what, len(node), node, content.schema_version, content.engine_version),
                *(len(payload), payload, len(cause), cause),
            )
        )
        parts.append(_fields(*[pointer.encode() for pointer in content.masked]) if content.masked else b";")
    return sha256(b"".join(parts)).digest()


def create_hash(workflow_id: str, tags: Iterable[str], home: str, *, executed: bool = False) -> bytes:
    """The hash of a request to create a run. ``home`` as the caller gave it: empty stays empty, whichever region answers."""
    return _hash(workflow_id.encode(), home.encode() + _EXECUTED[executed or None], *(tag.encode() for tag in tags))


def fork_hash(command: ForkCommand, home: str) -> bytes:
    """The hash of a request to fork. ``home`` as the caller gave it."""
    from_seq = b"" if command.from_seq is None else b"%d" % command.from_seq
    return _hash(
        command.source_run_id.encode(),
        from_seq,
        b"%d" % command.mode,
        command.overlay,
        home.encode() + _EXECUTED[command.executed],
        command.expected_prefix_digest,
    )


def import_hash(command: ImportCommand) -> bytes:
    """The hash of a request to import, by the digest of its documents."""
    return _hash(
        command.workflow_id.encode(),
        command.asked_home.encode(),
        command.content_digest,
        canonical(command.subject),
        *(tag.encode() for tag in command.tags),
    )


_EXECUTED: Final[dict[bool | None, bytes]] = {None: b"", True: b" executed", False: b" not executed"}
"""Behind the home, whose grammar has no space: a request that says nothing about executors hashes as before there were any."""


def receipt_region(key: bytes, homes: tuple[Region, ...]) -> Region:
    """The partition that keeps the receipt of a call that makes a run: chosen by the key alone, so that a repeat in any region finds it."""
    return homes[key[0] % len(homes)]


def _hash(*fields: bytes) -> bytes:
    return sha256(_fields(*fields)).digest()


def _fields(*fields: bytes) -> bytes:
    """Length before content, so that no two lists of fields look alike."""
    return b"".join([b"%d:%b" % (len(field), field) for field in fields])
