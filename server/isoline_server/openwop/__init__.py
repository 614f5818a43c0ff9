"""The tables of OpenWOP that the service reads instead of retyping them. Where they come from, and their licence: ``NOTICE.md``.

Belongs here: reading the files and handing their content to the domain as values. Not here: what is done with it (``domain.codemap``).
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from isoline_server.domain.codemap import Codemap, Shape

ADDED_ROWS: Final = (("negotiation.decided", "negotiation.decided"),)
"""Registered after the copy of the codemap was taken; not renamed."""

_LOCAL: Final = "#/$defs/"


@cache
def codemap() -> Codemap:
    """The codemap with the payload shapes. Raises ``CodemapInvalid``: then nothing may be served from it."""
    schema = _read("run-event-payloads.subset.schema.json")
    shapes = {
        v2_type: _shape(schema["$defs"], {"$ref": _LOCAL + name})
        for v2_type, name in schema["typeIndex"].items()
        if name in schema["$defs"]
    }
    rows = ((row["v1"], row["v2"]) for row in _read("event-codemap.json")["rows"])
    return Codemap([*rows, *ADDED_ROWS], shapes)


def _shape(definitions: Mapping[str, Any], schema: Mapping[str, Any]) -> Shape | None:
    """The shape of a closed object; None for anything else, references to other files included."""
    reference = schema.get("$ref", "")
    if reference:
        return _shape(definitions, definitions[reference[len(_LOCAL) :]]) if reference.startswith(_LOCAL) else None
    if schema.get("additionalProperties") is not False:
        return None
    members = {name: _shape(definitions, below) for name, below in schema.get("properties", {}).items()}
    return Shape(members=members, hatch="patternProperties" in schema)


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return document
