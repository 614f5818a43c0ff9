"""Receipts as this region's own replica shows them (port ``NearReceipts``). A replica replays only what it has on its disk, so what it shows is
on two nodes, where commits wait for one replica and it is among those that count."""

from collections.abc import Mapping, Sequence

from isoline_server.domain.ids import Region
from isoline_server.domain.receipt import Receipt
from isoline_server.store.database import Database
from isoline_server.store.sql_writer import load_receipts


class SqlNearReceipts:
    """``NearReceipts`` over the replica's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def follows(self) -> bool:
        return not self._database.leads

    async def load_receipts(self, region: Region, keys: Sequence[bytes]) -> Mapping[bytes, Receipt]:
        return await load_receipts(self._database, region, keys)
