"""What all nodes of a cluster share: programs, the account they run as, the folder, the password. Made once, before any node; starts nothing."""

from dataclasses import dataclass

from isoline_server.embedded.binaries import Binaries, find_binaries
from isoline_server.embedded.folder import DataFolder
from isoline_server.embedded.identity import Identity, choose_identity, reachable_binaries
from isoline_server.embedded.process import attempt
from isoline_server.embedded.psql import Psql


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What every node of a cluster shares."""

    folder: DataFolder
    binaries: Binaries
    identity: Identity
    password: str
    database: str
    durable: bool
    psql: Psql

    def tool(self, *command: str) -> list[str]:
        """A command of the tools that write data folders."""
        return [self.binaries.tool(command[0]), *command[1:], *([] if self.durable else ["--no-sync"])]


def prepare(folder: DataFolder, *, owner_of: str, database: str, durable: bool) -> Installation:
    """Find programs and an account that can use ``folder``. If there is data of the node ``owner_of`` already, its owner decides."""
    binaries = find_binaries()
    data = folder.node(owner_of)
    identity = choose_identity(attempt, owner=data.stat().st_uid if data.exists() else None)
    folder.open_to(identity)
    return Installation(
        folder=folder,
        binaries=reachable_binaries(attempt, identity, binaries, folder.binaries),
        identity=identity,
        password=folder.password(identity),
        database=database,
        durable=durable,
        psql=Psql(program=binaries.tool("psql"), passfile=folder.passfile),
    )
