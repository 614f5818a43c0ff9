"""Shows what was found: tables for people, one object for machines, and what to try next. No judging: ``findings`` does that."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from isoline_client.cli.demo.findings import Findings, Forked, Reading, Reexecuted
from isoline_client.cli.output import Output, add_row, facts, table

_DIGEST_CHARS = 16


def document(found: Findings, *, seconds: float, data_dir: Path) -> dict[str, Any]:
    """The object that ``--json`` prints; ``isoline demo --help`` describes it."""
    account, killed = found.account, found.killed
    return {
        "ok": found.ok,
        "regions": list(found.regions),
        "runs": list(found.runs),
        "prefix": [_row(each) for each in found.prefix],
        "prefix_equal": found.prefix_equal,
        "states": [
            {
                "run": each.run_id,
                "region": each.region,
                "at_seq": each.at_seq,
                "digest": each.digest.hex(),
                "source": each.source,
            }
            for each in found.states
        ],
        "state_equal": found.state_equal,
        "forks": [_fork(each) for each in found.forks],
        "fork_prefix_equal": found.fork_prefix_equal,
        "effects": _effects(found.effects),
        "masked_equal": found.effects.masked_equal,
        "raw_suffix_equal": found.effects.raw_suffix_equal,
        "killed": {
            "region": killed.region,
            "pid": killed.pid,
            "pid_after": killed.pid_after,
            "acknowledged_before": killed.acknowledged_before,
            "acknowledged_while_away": killed.acknowledged_while_away,
            "acknowledged_after": killed.acknowledged_after,
            "away_s": round(killed.away_s, 3),
        },
        "log": [_row(each) for each in found.log],
        "log_equal": found.log_equal,
        "acknowledged": account.acknowledged,
        "lost": account.lost,
        "duplicates": account.duplicates,
        "misplaced": account.misplaced,
        "unknown": account.unknown,
        "gaps": account.gaps,
        "repeated": found.repeated,
        "seconds": round(seconds, 2),
        "data_dir": str(data_dir),
    }


def _row(each: Reading) -> dict[str, Any]:
    return {
        "run": each.run_id,
        "region": each.region,
        "seq": each.last.seq,
        "digest": each.last.digest.hex(),
        "source": each.source,
        "ms": round(each.took_s * 1000, 2),
    }


def _effects(found: Reexecuted) -> dict[str, Any]:
    return {
        "run": found.run_id,
        "from_seq": found.from_seq,
        "after_run": found.after_run,
        "after_replays": found.after_replays,
        "after_branch": found.after_branch,
        "prefix_equal": found.prefix_equal,
        "replays": [
            {
                "run": each.run_id,
                "region": each.region,
                "prefix_digest": each.prefix_digest.hex(),
                "diverged": each.diverged,
            }
            for each in found.replays
        ],
    }


def _fork(each: Forked) -> dict[str, Any]:
    return {
        "run": each.run_id,
        "source_run": each.source_run_id,
        "region": each.region,
        "mode": each.mode,
        "from_seq": each.expected.seq + 1,
        "reads": [_row(reading) for reading in each.readings],
    }


def show(out: Output, found: Findings, *, seconds: float) -> None:
    """The proof for people."""
    for run_id in found.runs:
        out.show(
            Text(f"\n{run_id}", "bold"),
            "The prefix, read through every region while others appended, its digest recomputed here:",
            _table([each for each in found.prefix if each.run_id == run_id]),
            "Forks in the middle of it, their prefix read back through every region:",
            _fork_table([each for each in found.forks if each.source_run_id == run_id]),
            "The whole log at the end:",
            _table([each for each in found.log if each.run_id == run_id]),
        )
    out.show(
        Text(f"\n{found.effects.run_id}", "bold"),
        "A workflow with one real order over HTTP, executed, replayed in every region, branched once:",
        _replay_table(found.effects),
    )
    out.show(facts(_facts(found)), "", _verdict(found, seconds))


def _table(readings: Sequence[Reading]) -> Any:
    rows = table("region", "seq", "digest", "source", "ms", numbers=("seq", "ms"))
    for each in readings:
        digest, ms = each.last.digest.hex()[:_DIGEST_CHARS], f"{each.took_s * 1000:.1f}"
        add_row(rows, each.region, each.last.seq, digest, each.source, ms)
    return rows


def _fork_table(forks: Sequence[Forked]) -> Any:
    rows = table("made in", "mode", "from", "digest at from - 1", "equal", "read back through", numbers=("from",))
    for each in forks:
        digest = each.expected.digest.hex()[:_DIGEST_CHARS]
        through = " ".join(f"{reading.region}:{reading.source}" for reading in each.readings)
        add_row(rows, each.region, each.mode, each.expected.seq + 1, digest, _yes(each.equal), through)
    return rows


def _replay_table(found: Reexecuted) -> Any:
    rows = table("replayed in", "from", "digest at from - 1", "as the source", "diverged", numbers=("from", "diverged"))
    for each in found.replays:
        digest, same = each.prefix_digest.hex()[:_DIGEST_CHARS], each.prefix_digest == found.source_prefix_digest
        add_row(rows, each.region, found.from_seq, digest, _yes(same), each.diverged)
    return rows


def _facts(found: Findings) -> list[tuple[str, object]]:
    killed, account, effects = found.killed, found.account, found.effects
    told = f"{killed.acknowledged_before}, {killed.acknowledged_while_away} and {killed.acknowledged_after}"
    retried = f", {found.repeated} of them to a retry: their first answer was lost" if found.repeated else ""
    wrong = {"misplaced": account.misplaced, "unknown": account.unknown, "gaps": account.gaps}
    return [
        ("prefix equal", _yes(found.prefix_equal)),
        ("state equal", f"{_yes(found.state_equal)} (status, variables and channels at the end of the prefix)"),
        ("fork prefix equal", _yes(found.fork_prefix_equal)),
        ("whole log equal", _yes(found.log_equal)),
        (
            "orders at the shop",
            f"{effects.after_run} after the run, {effects.after_replays} after its replays, {effects.after_branch} after the branch",
        ),
        (
            "replays alike",
            f"{_yes(effects.masked_equal)} (masked); their bytes differ: {_yes(not effects.raw_suffix_equal)}",
        ),
        (
            "killed",
            f"the server of {killed.region} (pid {killed.pid}); back as {killed.pid_after} after {killed.away_s:.1f} s",
        ),
        ("its writer", f"was told of {told} events before, meanwhile and after"),
        ("acknowledged", f"{account.acknowledged} events{retried}"),
        ("lost", account.lost),
        ("duplicates", account.duplicates),
        *((name, count) for name, count in wrong.items() if count),
    ]


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


def _verdict(found: Findings, seconds: float) -> Text:
    if not found.ok:
        return Text("NOT PROVEN: see what is marked above.", "bold red")
    regions = ", ".join(found.regions)
    alike = f"{regions} hold the same history, byte for byte"
    said = f"Proven in {seconds:.1f} s: {alike}, nothing acknowledged is lost or there twice, and no replay ordered anything."
    return Text(said, "bold green")


def next_steps(out: Output, found: Findings, data_dir: Path) -> None:
    """What to try while the cluster is left running."""
    run, fork = found.runs[0], found.forks[0]
    lines = [
        "The cluster goes on. To try next:",
        f"  export ISOLINE_DATA_DIR={data_dir}",
        "  isoline run list",
        f"  isoline verify {run} --regions all",
        f"  isoline tail {run}",
        f"  isoline fork {run} --from {fork.expected.seq + 1}",
        "  isoline down     # stops it",
    ]
    for line in lines:
        out.aside.print(Text(line), soft_wrap=True) if out.json else out.show(line)
