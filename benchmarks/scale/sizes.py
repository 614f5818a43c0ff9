"""What stands on disk: rows and bytes of every table and index, as PostgreSQL counts them."""

from dataclasses import dataclass

from benchmarks.topology import Topology
from isoline_server.store.tables import metadata

_SIZES = """
SELECT c.relname, pg_relation_size(c.oid), pg_total_relation_size(c.oid), pg_table_size(c.oid) - pg_relation_size(c.oid)
  FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')"""


@dataclass(frozen=True)
class Measured:
    """Bytes of main forks by table and index; ``total_bytes``: everything of every table, as ``pg_total_relation_size`` says."""

    rows: dict[str, int]
    main_bytes: dict[str, int]
    total_bytes: dict[str, int]


def measure(place: Topology, database: str) -> Measured:
    """Look at every table of ours."""
    found = place.execute(database, _SIZES)
    names = set(metadata.tables)
    return Measured(
        rows={name: _number(place.execute(database, f"SELECT count(*) FROM {name}")[0][0]) for name in sorted(names)},
        main_bytes={str(row[0]): _number(row[1]) for row in found},
        total_bytes={str(row[0]): _number(row[2]) for row in found if row[0] in names},
    )


def _number(value: object) -> int:
    return int(str(value))
