"""How values cross the border to a replay worker: as JSON, by the types that their classes declare. No message names a class of its own choice.

Dataclasses, tuples, sequences, mappings, unions of dataclasses, and whatever is JSON by itself (``Any``, and plain values).
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from isoline_client.events import NewEvent


def to_json(declared: Any, value: Any) -> Any:
    """The JSON of a value of the declared type."""
    return _codec(declared)[0](value)


def from_json(declared: Any, document: Any) -> Any:
    """The value that ``to_json`` was given."""
    return _codec(declared)[1](document)


Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]]


@cache
def _codec(declared: Any) -> Codec:
    """How a type is written and read."""
    origin, arguments = get_origin(declared), get_args(declared)
    if declared is NewEvent:
        return _write_event, _read_event
    if is_dataclass(declared):
        return _of_dataclass(cast("type", declared))
    if origin in {Union, types.UnionType}:
        return _of_union(arguments)
    if origin in {tuple, list, Sequence, types.GenericAlias} and arguments:
        write, read = _codec(arguments[0])
        made = list if origin is list else tuple
        return lambda value: [write(each) for each in value], lambda document: made(read(each) for each in document)
    if origin in {dict, Mapping} and arguments:
        write, read = _codec(arguments[1])
        return (
            lambda value: {key: write(each) for key, each in value.items()},
            lambda document: {key: read(each) for key, each in document.items()},
        )
    return _as_it_is, _as_it_is


def _of_dataclass(declared: type) -> Codec:
    """Field by field. Types are looked at when the first value comes, so that a class may hold itself."""

    @cache
    def members() -> list[tuple[str, Codec]]:
        hints = get_type_hints(declared)
        return [(each.name, _codec(hints[each.name])) for each in fields(cast("Any", declared)) if each.init]

    def write(value: Any) -> Any:
        return {name: codec[0](getattr(value, name)) for name, codec in members()}

    def read(document: Any) -> Any:
        return declared(**{name: codec[1](document[name]) for name, codec in members()})

    return write, read


def _of_union(arguments: tuple[Any, ...]) -> Codec:
    """A dataclass of several says which it is; anything else in the union is JSON."""
    classes: dict[str, Any] = {
        each.__name__: each for each in arguments if isinstance(each, type) and is_dataclass(each)
    }
    rest = [each for each in arguments if each not in classes.values() and each is not type(None)]
    other = _codec(rest[0]) if len(rest) == 1 else (_as_it_is, _as_it_is)

    def write(value: Any) -> Any:
        if value is None:
            return None
        if type(value) in classes.values():
            name = type(value).__name__
            return {"is": name, "value": _codec(classes[name])[0](value)}
        return other[0](value)

    def read(document: Any) -> Any:
        if document is None:
            return None
        if classes and isinstance(document, dict) and document.get("is") in classes:
            return _codec(classes[document["is"]])[1](document["value"])
        return other[1](document)

    return write, read


def _as_it_is(value: Any) -> Any:
    return value


def _write_event(event: NewEvent) -> Any:
    own = {name: getattr(event, name) for name in NewEvent.__slots__ if name != "payload_bytes"}
    return own | {"payload": event.payload_bytes.decode(), "masked": list(event.masked)}


def _read_event(document: Any) -> NewEvent:
    return NewEvent(**document)
