"""``isoline status`` and ``capabilities``: the servers themselves."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import typer
from rich.table import Table
from rich.text import Text

from isoline_client.cli.documents import capabilities_document, region_document
from isoline_client.cli.failures import Exit, describe, in_short
from isoline_client.cli.options import add_command
from isoline_client.cli.output import add_row, facts, table
from isoline_client.cli.servers import Server
from isoline_client.cli.session import Session
from isoline_client.errors import IsolineError
from isoline_client.values import Capabilities, RegionStatus

STATUS_TIMEOUT_S: Final = 4.0
"""Longer than a server waits for its databases before it says that they do not answer."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for work in (status, capabilities):
        add_command(app, work)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of asking one server."""

    server: Server
    status: RegionStatus | None = None
    error: IsolineError | None = None

    @property
    def trouble(self) -> str:
        """What is wrong; empty when nothing is."""
        found = self.status
        if found is None:
            return "does not answer" if self.error is None else in_short(self.error)
        if self.server.region and found.region != self.server.region:
            return f"this is the server of {found.region}"
        return ", ".join(
            what
            for what, is_so in (
                ("draining", found.draining),
                ("leader not reachable", not found.leader_reachable),
                ("own replica not reachable", not found.local_reachable),
            )
            if is_so
        )


async def status(session: Session) -> int:
    r"""Show how every region stands: is its server there, how far is its replica behind, who leads.

    Exit 0 when all is well, 1 when something is not, 4 when no server answers. With --json one line a server: {"address", "ok",
    "trouble", "region", "topology", "leaderReachable", "leaderRegion", "localReachable", "localIsLeader", "lagBytes", "lagMs", "draining"}.

    \b
    isoline status
    isoline status -s eu=10.0.0.1:7100 -s us=10.1.0.1:7100 --json
    """
    answers = await asyncio.gather(*(ask(session, server) for server in session.servers.listed))
    if session.out.json:
        for answer in answers:
            session.out.document(_document(answer))
    else:
        session.out.show(_status_table(answers))
    if all(answer.status is None for answer in answers):
        session.out.note(session.origin_hint())
        return Exit.UNAVAILABLE
    return Exit.NEGATIVE if any(answer.trouble for answer in answers) else Exit.OK


async def capabilities(session: Session) -> None:
    r"""Show what the answering server is: version, digest algorithm, regions and every limit.

    \b
    isoline capabilities
    isoline capabilities --json | jq .limits.payload_bytes_max
    """
    async with session.client() as client:
        found = await client.capabilities()
    if session.out.json:
        session.out.document(capabilities_document(found))
    else:
        session.out.show(_about(found), _limits(found))


async def ask(session: Session, server: Server) -> Answer:
    """How the region of one server stands."""
    async with session.client_of(server, timeout_s=min(session.timeout_s, STATUS_TIMEOUT_S)) as client:
        try:
            return Answer(server, await client.region_status())
        except IsolineError as error:
            return Answer(server, error=error)


def _document(answer: Answer) -> dict[str, Any]:
    made: dict[str, Any] = {
        "address": answer.server.address,
        "ok": not answer.trouble,
        "trouble": answer.trouble or None,
    }
    if answer.status is not None:
        return made | region_document(answer.status)
    reason = "" if answer.error is None else describe(answer.error).kind
    return made | {"region": answer.server.region or None, "error": reason}


def _status_table(answers: list[Answer]) -> Table:
    made = table(
        "region", "address", "replica", "lag bytes", "lag ms", "leader", "topology", "", numbers=["lag bytes", "lag ms"]
    )
    for answer in answers:
        found = answer.status
        trouble = Text(answer.trouble or "ok", "bold red" if answer.trouble else "green")
        if found is None:
            add_row(made, answer.server.region, answer.server.address, None, None, None, None, None, trouble)
            continue
        replica = "leads" if found.local_is_leader else "follows" if found.local_reachable else "-"
        leader = found.leader_region or ("yes" if found.leader_reachable else "-")
        lag = (found.lag_bytes, found.lag_ms)
        add_row(made, found.region, answer.server.address, replica, *lag, leader, found.topology, trouble)
    return made


def _about(found: Capabilities) -> Table:
    return facts(
        [
            ("version", found.version),
            ("api", found.api),
            ("digest", found.digest_algorithm),
            ("chain start", found.chain_start.hex()),
            ("fork modes", ", ".join(found.fork_modes)),
            ("era", str(found.era)),
            ("regions", ", ".join(found.regions)),
        ]
    )


def _limits(found: Capabilities) -> Table:
    made = table("limit", "value", numbers=["value"])
    for name, value in sorted(found.limits.items()):
        add_row(made, name, value)
    return made
