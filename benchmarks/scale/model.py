"""How many bytes stand on disk, by arithmetic: rows times what a row takes, for every table and index.

Pure: PostgreSQL's page layout, the widths of our columns (read from the schema, so that a new column counts at once), and a few measured
constants. Not here: times, which no arithmetic gives; CockroachDB, whose files are compressed and merged. Values above some 2,000 bytes go to
a second table (TOAST) and are refused: for them count the payload itself, times the replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Integer, SmallInteger, Table

from isoline_server.store.tables import metadata

INLINE_BYTES_MAX = 1_900
"""The longest record the model takes: a row above some 2,000 bytes is compressed or moved out of its page."""

PAGE_BYTES = 8_192
TABLE_OVERHEAD_BYTES = 32 * 1024
"""Of a table beside its rows and indexes: the map of its free space, and the empty index of its second table."""

_HEAP_PAGE_HEADER_BYTES = 24
_INDEX_PAGE_HEADER_BYTES = 40
_SHORT_VALUE_BYTES_MAX = 126
_INDEX_KEY_ALIGNMENT = 8
_PAGES_OVER_LEAVES = 1.01
_INDEX_OWN_PAGES = 1.0
_FIXED: Mapping[type, int] = {BigInteger: 8, DateTime: 8, Integer: 4, SmallInteger: 2, Boolean: 1}

Widths = Mapping[str, int | None]
"""Bytes of each column of variable width; None: null. Columns that are not named and are nullable are null."""


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What is not ours to choose. ``index_fill`` is measured: pages of an index that is filled in random order are this full."""

    tuple_overhead_bytes: int = 28
    """Header and line pointer of a row."""
    index_overhead_bytes: int = 12
    """Header and line pointer of an index entry."""
    index_fill: float = 0.70
    envelope_bytes: int = 66
    """A record over its payload: type, event id, time, region, and protobuf's tags."""
    digest_bytes: int = 32


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is stored. Versions of a run's row that appends leave are not in it: the next update of their page clears them."""

    runs: int
    events: int
    appends: int
    event_bytes: int
    forks: int = 0
    snapshots: int = 0
    state_bytes: int = 0
    run_id_bytes: int = 36
    tenant_bytes: int = 6
    workflow_bytes: int = 5
    region_bytes: int = 2


@dataclass(frozen=True)
class Predicted:
    """Bytes of the rows of each table and of each index, and what tables have beside."""

    relations: Mapping[str, int]
    overhead_bytes: int

    @property
    def total_bytes(self) -> int:
        return sum(self.relations.values()) + self.overhead_bytes


def predict(load: Load, constants: Constants = Constants()) -> Predicted:
    """The bytes of everything in ``load``. Raises ``ValueError`` when its events or states do not fit into a row."""
    record_bytes = load.event_bytes + constants.envelope_bytes
    for name, size in (("event_bytes", record_bytes), ("state_bytes", load.state_bytes)):
        if size > INLINE_BYTES_MAX:
            raise ValueError(
                f"{name}: a record or state of {size} bytes is above {INLINE_BYTES_MAX}, which the model takes"
            )
    pages: dict[str, float] = {}
    for name, rows, widths in _tables(load, record_bytes, constants.digest_bytes):
        table = metadata.tables[name]
        pages[name] = pages.get(name, 0.0) + rows / _rows_a_page(table, widths, constants)
        for index, columns in _indexes(table).items():
            pages[index] = pages.get(index, _INDEX_OWN_PAGES) + rows * _pages_an_entry(columns, widths, constants)
    tables = sum(1 for name in metadata.tables if pages.get(name))
    return Predicted({name: ceil(each) * PAGE_BYTES for name, each in pages.items()}, tables * TABLE_OVERHEAD_BYTES)


def _tables(load: Load, record_bytes: int, digest: int) -> list[tuple[str, int, Widths]]:
    """Rows of each table and how wide they are. Rows of two shapes stand apart: what a fork and an append leave has other nulls."""
    run: Widths = {
        "region": load.region_bytes,
        "run_id": load.run_id_bytes,
        "tenant": load.tenant_bytes,
        "workflow_id": load.workflow_bytes,
        "tags": 2,
        "head_digest": digest,
    }
    fork = {
        **run,
        "source_run_id": load.run_id_bytes,
        "prefix_digest": digest,
        "overlay": 2,
        "fork_mode": 2,
        "from_seq": 8,
    }
    made: Widths = {"region": load.region_bytes, "key": digest, "request_hash": digest, "run_id": load.run_id_bytes}
    appended = {**made, "run_id": None, "digest": digest, "first_seq": 8, "last_seq": 8}
    logged: Widths = {
        "region": load.region_bytes,
        "run_id": load.run_id_bytes,
        "record": record_bytes,
        "digest": digest,
    }
    shared: Widths = {"region": load.region_bytes, "run_id": load.run_id_bytes, "origin_run_id": load.run_id_bytes}
    kept = {**shared, "prefix_digest": digest, "state": load.state_bytes, "state_digest": digest}
    return [
        ("runs", load.runs, run),
        ("runs", load.forks, fork),
        ("lineage", load.forks, shared),
        ("events", load.events, logged),
        ("receipts", load.runs + load.forks, made),
        ("receipts", load.appends, appended),
        ("snapshots", load.snapshots, kept),
    ]


def _indexes(table: Table) -> dict[str, list[Column[object]]]:
    """Every index that has an entry for every row: partial ones hold what waits, which is little."""
    key = table.primary_key
    found = {str(key.name): list(key.columns)}
    for index in table.indexes:
        if index.dialect_options["postgresql"]["where"] is None:
            found[str(index.name)] = list(index.columns)
    return found


def _rows_a_page(table: Table, widths: Widths, constants: Constants) -> int:
    columns = list(table.columns)
    nulls = any(_width(each, widths) is None for each in columns)
    # 23 bytes and a bit a column; without nulls, or with up to eight columns, they fit into the 24 that every row has.
    bitmap = _aligned(23 + ceil(len(columns) / 8), 8) - 24 if nulls else 0
    row = _aligned(_data_bytes(columns, widths) + bitmap, 8) + constants.tuple_overhead_bytes
    return (PAGE_BYTES - _HEAP_PAGE_HEADER_BYTES) // row


def _pages_an_entry(columns: list[Column[object]], widths: Widths, constants: Constants) -> float:
    entry = _aligned(_data_bytes(columns, widths), _INDEX_KEY_ALIGNMENT) + constants.index_overhead_bytes
    leaf = (PAGE_BYTES - _INDEX_PAGE_HEADER_BYTES) * constants.index_fill
    return entry / leaf * _PAGES_OVER_LEAVES


def _data_bytes(columns: list[Column[object]], widths: Widths) -> int:
    size = 0
    for column in columns:
        width = _width(column, widths)
        if width is None:
            continue
        fixed = _fixed(column)
        if fixed is not None:
            size = _aligned(size, fixed) + fixed
        elif width <= _SHORT_VALUE_BYTES_MAX:
            size += 1 + width
        else:
            size = _aligned(size, 4) + 4 + width
    return size


def _width(column: Column[object], widths: Widths) -> int | None:
    if column.name in widths:
        return widths[column.name]
    return None if column.nullable else _fixed(column) or 0


def _fixed(column: Column[object]) -> int | None:
    return next((width for kind, width in _FIXED.items() if type(column.type) is kind), None)


def _aligned(size: int, to: int) -> int:
    return ceil(size / to) * to
