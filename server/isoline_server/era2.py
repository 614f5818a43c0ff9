"""The stored form of era-2 events, and the one place where they become what readers see: the ``Event`` record of the v2 vocabulary.

A log's ``record`` column holds ``Event`` messages, but in a run that a v1 host wrote it holds ``StoredLegacyEvent`` messages: the v1 document
verbatim, or an event appended here since, under its v1 name. The chain is over the *translated* records, which are a pure function of the
stored bytes. Since a translated record carries its document's digest, and stored bytes are taken only in their one spelling, every stored
bit is under the chain.

Belongs here: that form, and translating a page at the storage boundary. Not here: what a v1 event reads as (``domain.legacy``), SQL.
"""

from dataclasses import replace

from google.protobuf.message import DecodeError

from isoline.v1 import common_pb2 as pb
from isoline_server import codec
from isoline_server.domain.canonical import JsonObject
from isoline_server.domain.codemap import Codemap
from isoline_server.domain.errors import Damaged, InvalidField, Untranslatable
from isoline_server.domain.ids import Tenant, event_id_text
from isoline_server.domain.imported import TakenEvent
from isoline_server.domain.legacy import LegacyEvent, check_document, legacy_owner, parse_document, project, translate
from isoline_server.domain.payload import parse_payload
from isoline_server.operations.ports import RawPage

_EVENT_BEGINS = b"\x0a"
"""Field 1, the content: how every ``Event`` record begins, and no ``StoredLegacyEvent``."""


class Era2:
    """Stores and translates era-2 events by one codemap."""

    def __init__(self, codemap: Codemap) -> None:
        self._codemap = codemap

    def take(self, document: bytes, seq: int, field: str, tenant: Tenant, subject: JsonObject) -> TakenEvent:
        """Take a v1 document at the door, and stamp the legacy owner where none is told. Raises ``InvalidField`` or ``TooLarge``."""
        event = check_document(document, seq, field)
        owner = legacy_owner(event, tenant, subject)
        stored = pb.StoredLegacyEvent(document=document, owner=owner).SerializeToString(deterministic=True)
        workflow_id = event.members.get("workflowId")
        named = workflow_id if isinstance(workflow_id, str) else ""
        try:
            found = translate(event, owner, self._codemap)
        except Untranslatable as refusal:
            return TakenEvent(stored=stored, record=stored, workflow_id=named, content=None, refusal=refusal)
        record = codec.encode(found.content, found.stamp)
        return TakenEvent(stored=stored, record=record, workflow_id=named, content=found.content, refusal=None)

    def stored_append(self, record: bytes) -> bytes:
        """How an event that is appended to an era-2 run is stored: under its v1 name. Raises ``InvalidField`` when it would not read back."""
        appended = pb.Event.FromString(record)
        v2_type = appended.content.type
        appended.content.type = self._codemap.v1_type(v2_type)
        stored = pb.StoredLegacyEvent(appended=appended).SerializeToString(deterministic=True)
        try:
            readable = self.translated(stored, 0) == record
        except Untranslatable as refusal:
            rule = f"could not be read back from an era-2 run ({str(refusal).partition(': ')[2]})"
            raise InvalidField("events", rule, got=v2_type) from refusal
        if not readable:
            raise InvalidField("events", "have a type that is another type's v1 name, in an era-2 run", got=v2_type)
        return stored

    def translate_page(self, page: RawPage, start_byte: int) -> RawPage:
        """A page as readers see it. An era-3 page is returned as it is: one log has one era, so its first byte tells.

        It ends before an event that has no v2 form; one that begins with such an event holds that alone, with the refusal, and its stored
        bytes are what its digest is over: so a damaged row is told from an untranslatable one by the chain, as everywhere.
        """
        if not page.records or page.records[0].startswith(_EVENT_BEGINS):
            return page
        records: list[bytes] = []
        refusal: Untranslatable | None = None
        for seq, stored in enumerate(page.records, start=page.first_seq):
            try:
                records.append(self.translated(stored, seq))
            except Damaged:
                records.append(stored)  # it does not extend the chain; whoever verifies it says so
            except Untranslatable as error:
                if not records:
                    records, refusal = [stored], error
                break
        return replace(
            page,
            records=records,
            digests=page.digests[: len(records)],
            last_end_byte=page.last_end_byte
            if len(records) == len(page.records)
            else start_byte + sum(len(record) for record in records),
            refusal=refusal,
        )

    def translated(self, stored: bytes, seq: int) -> bytes:
        """The record that stored bytes read as at ``seq``. Raises ``Untranslatable``, or ``Damaged`` when they are no stored event."""
        message = _parse(stored)
        if message.HasField("appended"):
            return self._translated_append(message.appended, seq)
        event = _parse_document(message.document, seq)
        found = translate(event, message.owner, self._codemap)
        return codec.encode(found.content, found.stamp)

    def _translated_append(self, appended: pb.Event, seq: int) -> bytes:
        content = appended.content
        payload = parse_payload(content.payload)
        content.type = project(
            self._codemap, content.type, payload, event_id=event_id_text(appended.stamp.event_id), seq=seq
        )
        return appended.SerializeToString(deterministic=True)


def _parse(stored: bytes) -> pb.StoredLegacyEvent:
    try:
        message = pb.StoredLegacyEvent.FromString(stored)
    except DecodeError as error:
        raise Damaged("the record is no stored era-2 event") from error
    appended = message.appended if message.HasField("appended") else None
    spelled = pb.StoredLegacyEvent(document=message.document, owner=message.owner, appended=appended)
    if spelled.SerializeToString(deterministic=True) != stored or (appended is None) != bool(message.document):
        raise Damaged("the record is no stored era-2 event")
    return message


def _parse_document(document: bytes, seq: int) -> LegacyEvent:
    try:
        event = parse_document(document, "document")
    except InvalidField as error:
        raise Damaged(f"the stored v1 event is damaged: {error}") from error
    if event.sequence != seq:
        raise Damaged(f"the stored v1 event is of seq {event.sequence}")
    return event
