"""Packed array parameters are what the database reads back, whatever stands in them."""

import psycopg
import pytest

from isoline_server.store import arrays
from isoline_server.store.arrays import BigintArray, BooleanArray, ByteaArray, TextArray


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("kind", "packed", "values"),
    [
        ("BYTEA[]", ByteaArray, [b"", b"\x00\xff", b"a" * 70_000]),
        ("BYTEA[]", ByteaArray, [None, b"a", None]),
        ("BIGINT[]", BigintArray, [0, -1, 2**63 - 1, -(2**63)]),
        ("BIGINT[]", BigintArray, [None]),
        ("TEXT[]", TextArray, ["", "ö{},\"'\\", "NULL", "\U0001f600"]),
        ("TEXT[]", TextArray, ["a", None]),
        ("BOOLEAN[]", BooleanArray, [True, False]),
    ],
)
def test_an_array_comes_back_as_it_was(pg_url, kind, packed, values):
    with psycopg.connect(pg_url.replace("+psycopg", "")) as connection:
        arrays.register(connection)
        for each in (values, values[:1], []):
            (found,) = connection.execute(f"SELECT %b::{kind}", [packed(each)], binary=True).fetchone()
            assert found == each


@pytest.mark.postgres
def test_a_number_that_is_no_bigint_is_refused(pg_url):
    with psycopg.connect(pg_url.replace("+psycopg", "")) as connection:
        arrays.register(connection)
        with pytest.raises(Exception, match=r"argument out of range|int too large|'q' format"):
            connection.execute("SELECT %b::BIGINT[]", [BigintArray([2**63])])
