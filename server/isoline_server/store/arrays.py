"""Array parameters, packed here: the binary form of a one-dimensional PostgreSQL array (CockroachDB reads the same).

The driver's own dumper looks at every element to find the array's type and checks it against the others, which for the appends' many short
arrays costs more than the statement. A caller says the type by the class it wraps its values in; None is a NULL.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEAD: Final = Struct("!iiIii").pack
"""Dimensions, whether there are NULLs, the element's type, its length, its lower bound."""
_EMPTY: Final = Struct("!iiI").pack
_LENGTH: Final = Struct("!i").pack
_BIGINT: Final = Struct("!iq").pack
_BOOLEAN: Final = Struct("!i?").pack
_NULL: Final = _LENGTH(-1)

BYTEA_OID, BIGINT_OID, TEXT_OID, BOOLEAN_OID = 17, 20, 25, 16


class ByteaArray:
    """A ``BYTEA[]`` parameter."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.values = values


class BigintArray:
    """A ``BIGINT[]`` parameter."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[int | None]) -> None:
        self.values = values


class TextArray:
    """A ``TEXT[]`` parameter."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[str | None]) -> None:
        self.values = values


class BooleanArray:
    """A ``BOOLEAN[]`` parameter."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[bool]) -> None:
        self.values = values


def register(context: AdaptContext) -> None:
    """Teach a connection the four array types."""
    for kind, dumper in _DUMPERS:
        context.adapters.register_dumper(kind, dumper)


def _join(values: Sequence[Any], element_oid: int, packed: Sequence[bytes]) -> bytes:
    if not values:
        return _EMPTY(0, 0, element_oid)
    return _HEAD(1, None in values, element_oid, len(values), 1) + b"".join(packed)


class _ByteaArrayDumper(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: ByteaArray) -> bytes:
        packed = [_NULL if value is None else _LENGTH(len(value)) + value for value in obj.values]
        return _join(obj.values, BYTEA_OID, packed)


class _BigintArrayDumper(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: BigintArray) -> bytes:
        return _join(obj.values, BIGINT_OID, [_NULL if value is None else _BIGINT(8, value) for value in obj.values])


class _TextArrayDumper(Dumper):
    format = Format.BINARY
    oid = 1009

    def dump(self, obj: TextArray) -> bytes:
        encoded = [None if value is None else value.encode() for value in obj.values]
        packed = [_NULL if value is None else _LENGTH(len(value)) + value for value in encoded]
        return _join(encoded, TEXT_OID, packed)


class _BooleanArrayDumper(Dumper):
    format = Format.BINARY
    oid = 1000

    def dump(self, obj: BooleanArray) -> bytes:
        return _join(obj.values, BOOLEAN_OID, [_BOOLEAN(1, value) for value in obj.values])


_DUMPERS: Final[Sequence[tuple[type, type[Dumper]]]] = (
    (ByteaArray, _ByteaArrayDumper),
    (BigintArray, _BigintArrayDumper),
    (TextArray, _TextArrayDumper),
    (BooleanArray, _BooleanArrayDumper),
)
