"""What a CockroachDB database must be told before its tables can be made: its regions, and that it is to survive the loss of one.

Nothing here concerns PostgreSQL, where regions are only values of a column.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from isoline_server.store import cockroach
from isoline_server.store.migrations.errors import RegionsMissing


def missing_statements(connection: Connection, regions: Sequence[str]) -> list[str]:
    """What is still to be said so that the database has these regions; empty if all is said. Regions it has besides are left alone."""
    database = str(connection.exec_driver_sql("SELECT current_database()").scalar_one())
    present = {str(row["region"]) for row in connection.exec_driver_sql(cockroach.show_regions(database)).mappings()}
    missing = [region for region in dict.fromkeys(regions) if region not in present]
    if not present and not missing:
        raise RegionsMissing(database)
    statements = [cockroach.add_region(database, region) for region in missing]
    if not present:
        statements[0] = cockroach.set_primary_region(database, missing[0])
    if _wants_survival(connection, database, present, regions):
        statements.append(cockroach.survive_region_failure(database))
    return statements


def _wants_survival(connection: Connection, database: str, present: set[str], regions: Sequence[str]) -> bool:
    """The goal is set for those who name their regions; a database that others set up keeps theirs."""
    if not regions or len(present.union(regions)) < cockroach.REGIONS_TO_SURVIVE_ONE:
        return False
    if not present:
        return True
    goal = connection.exec_driver_sql(cockroach.show_survival_goal(database)).mappings().one()["survival_goal"]
    return str(goal) != "region"
