"""Identifiers: their grammar, how they are built and taken apart. No randomness is drawn here; it comes in as bytes.

Grammar: OpenWOP v2 ``ids.schema.json``. A run id is ``<tenant>/<home>-<26 characters of base32>``; ``home`` is the short code of the
region whose partition holds the run, so that every statement knows its region without a look-up.
"""

import base64
import re
from functools import lru_cache
from typing import Final, NewType

from isoline_server.domain import limits
from isoline_server.domain.errors import InvalidField

RunId = NewType("RunId", str)
Tenant = NewType("Tenant", str)
Region = NewType("Region", str)
"""The short code of a region: ``[a-z][a-z0-9]{0,14}``. It is rendered into SQL as a literal, so this grammar is also a safety rule."""

RUN_ENTROPY_BYTES: Final = 16
NAMES_REMEMBERED: Final = 4_096
"""Names that passed before are known: an engine sends the same few for every event. Refusals are not remembered."""

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_REGION = re.compile(r"[a-z][a-z0-9]{0,14}")
_TENANT = re.compile(r"(anon:)?[A-Za-z0-9._-]{1,128}")
_RUN = re.compile(r"(?P<tenant>(anon:)?[A-Za-z0-9._-]{1,128})/(?P<home>[a-z][a-z0-9]{0,14})-(?P<random>[a-z2-7]{26})")
_NAME = re.compile(r"[A-Za-z0-9._~:-]{1,128}")
_EVENT_ID = re.compile(r"[A-Za-z0-9._~-]{16,128}")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._~-]{16,128}")
_EVENT_TYPE = re.compile(r"(?!openwop\.)[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z][a-z0-9]*(-[a-z0-9]+)*){1,2}")


def mint_run_id(tenant: Tenant, home: Region, entropy: bytes) -> RunId:
    """Build a run id from 16 random bytes."""
    assert len(entropy) == RUN_ENTROPY_BYTES
    return RunId(f"{tenant}/{home}-{base64.b32encode(entropy).decode().rstrip('=').lower()}")


def parse_run_id(text: str, field: str = "run_id") -> tuple[Tenant, Region]:
    """Return the tenant and the home region of a run id; raise ``InvalidField`` when it does not follow the grammar."""
    match = _RUN.fullmatch(text)
    if match is None:
        raise InvalidField(field, "must be <tenant>/<home>-<26 characters of base32>", got=text[:200])
    return Tenant(match["tenant"]), Region(match["home"])


def event_id_text(event_id: bytes) -> str:
    """The 16 bytes of a ULID as its 26 characters of Crockford's base32, as readers see it."""
    number = int.from_bytes(event_id, "big")
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def home_of(run_id: RunId) -> Region:
    """The home region of a run id that was already checked."""
    return Region(run_id.rpartition("/")[2].partition("-")[0])


def check_region(text: str, field: str = "region") -> Region:
    return Region(
        _matching(_REGION, text, field, "must be a region code: a lower-case letter, then up to 14 letters or digits")
    )


def check_tenant(text: str, field: str = "tenant") -> Tenant:
    return Tenant(_matching(_TENANT, text, field, "must be 1 to 128 characters of [A-Za-z0-9._-]"))


@lru_cache(NAMES_REMEMBERED)
def check_name(text: str, field: str) -> str:
    """A node, workflow or engine name."""
    return _matching(_NAME, text, field, f"must be 1 to {limits.NAME_CHARS_MAX} characters of [A-Za-z0-9._~:-]")


def check_request_id(text: str, field: str = "request_id") -> str:
    return _matching(
        _REQUEST_ID,
        text,
        field,
        f"must be {limits.REQUEST_ID_CHARS_MIN} to {limits.REQUEST_ID_CHARS_MAX} characters of [A-Za-z0-9._~-], made once a call at random",
    )


@lru_cache(NAMES_REMEMBERED)
@lru_cache(maxsize=1024)  # every event has one, and there are few; a refusal is not kept
def check_event_type(text: str, field: str) -> str:
    return _matching(
        _EVENT_TYPE,
        text,
        field,
        "must be two or three lower-case dotted words (org.event or org.group.event), not starting with openwop.",
    )


def check_causation_id(text: str, field: str) -> str:
    return _matching(_EVENT_ID, text, field, "must be an event id: 16 to 128 characters of [A-Za-z0-9._~-]")


def _matching(pattern: re.Pattern[str], text: str, field: str, rule: str) -> str:
    if pattern.fullmatch(text) is None:
        raise InvalidField(field, rule, got=text[:200])
    return text
