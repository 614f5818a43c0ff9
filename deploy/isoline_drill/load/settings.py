"""What a load process is told on its command line."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``addresses`` begin with the own region's server. ``client`` names this process in the history: no two may have one name."""

    region: str
    client: str
    addresses: tuple[str, ...]
    api_key: str | None
    own_runs: int
    shared: Path | None
    shared_runs: int
    rate_per_s: float
    seed: int
    history: Path
    stop_file: Path | None
    deadline_s: float
    grace_s: float
    writes_open_max: int
    reads_open_max: int


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line; end the process with what is wrong with it."""
    parser = _parser()
    given = parser.parse_args(arguments)
    servers = dict(given.server)
    if given.region not in servers:
        parser.error(f"--server: none of region {given.region}, which is the own")
    return Settings(
        region=given.region,
        client=given.client or f"{given.region}-{os.getpid()}",
        addresses=(servers.pop(given.region), *servers.values()),
        api_key=given.key_file.read_text().strip() if given.key_file else None,
        own_runs=given.runs,
        shared=given.shared,
        shared_runs=given.shared_runs,
        rate_per_s=given.rate,
        seed=given.seed,
        history=given.history,
        stop_file=given.stop_file,
        deadline_s=given.deadline_ms / 1000,
        grace_s=given.grace_ms / 1000,
        writes_open_max=given.writes_open,
        reads_open_max=given.reads_open,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m isoline_drill.load",
        description="Append, read and fork at a steady rate, and record it. Ends in order on SIGTERM.",
    )
    add = parser.add_argument
    add("--region", required=True, help="the region in which this client stands")
    add("--server", required=True, action="append", type=_server, metavar="REGION=HOST:PORT", help="may be repeated")
    add("--history", required=True, type=Path, metavar="FILE", help="where to record; must not exist")
    add("--client", default="", help="the name in the history (default: region and process id)")
    add("--key-file", type=Path, metavar="FILE", help="holds the API key")
    add("--runs", type=int, default=2, metavar="N", help="runs of its own (default: %(default)s)")
    add("--shared", type=Path, metavar="FILE", help="ids of runs that all write; the first process makes them and it")
    add("--shared-runs", type=int, default=1, metavar="N", help="how many the first makes (default: %(default)s)")
    add(
        "--rate", type=_positive, default=40.0, metavar="PER_S", help="operations begun a second (default: %(default)s)"
    )
    add("--seed", type=int, default=0, help="of the choice of what is done (default: %(default)s)")
    add("--stop-file", type=Path, metavar="FILE", help="end when this exists, as on SIGTERM")
    add("--deadline-ms", type=_positive, default=3_000.0, help="of one call (default: %(default)s)")
    add("--grace-ms", type=_positive, default=2_000.0, help="for what is open when it ends (default: %(default)s)")
    add("--writes-open", type=int, default=16, metavar="N", help="changes under way at most (default: %(default)s)")
    add("--reads-open", type=int, default=16, metavar="N", help="reads under way at most (default: %(default)s)")
    return parser


def _server(text: str) -> tuple[str, str]:
    region, equals, address = text.partition("=")
    if not (region and equals and address):
        raise argparse.ArgumentTypeError(f"{text!r} is not REGION=HOST:PORT")
    return region, address


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number
