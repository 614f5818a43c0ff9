"""A run of a v1 host on its way to the service: documents to messages. What is in a document is the server's to judge."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from isoline.v1 import log_service_pb2 as pb
from isoline_client.limits import APPEND_EVENTS_MAX, IMPORT_MESSAGE_BYTES


def content_digest(documents: Iterable[bytes]) -> bytes:
    """The digest an import is known by: over every document, each followed by a line feed."""
    digest = sha256()
    for document in documents:
        digest.update(document)
        digest.update(b"\n")
    return digest.digest()


def messages(header: pb.ImportHeader, documents: Iterable[bytes]) -> Iterator[pb.ImportRunRequest]:
    """The header, then the documents in as many messages as they take."""
    yield pb.ImportRunRequest(header=header)
    batch: list[bytes] = []
    size = 0
    for document in documents:
        if batch and (len(batch) == APPEND_EVENTS_MAX or size + len(document) > IMPORT_MESSAGE_BYTES):
            yield pb.ImportRunRequest(events=pb.ImportEvents(documents=batch))
            batch, size = [], 0
        batch.append(document)
        size += len(document)
    if batch:
        yield pb.ImportRunRequest(events=pb.ImportEvents(documents=batch))
