"""What must be true of runs as a whole: what was made is there, and a fork has its source's prefix."""

from collections.abc import Iterator, Mapping

from isoline_drill.checker_findings import Fault, Finding, Log
from isoline_drill.history import Create, Fork


def check_made(made: Create | Fork, logs: Mapping[str, Log]) -> Iterator[Finding]:
    """A run that was acknowledged to be made is in the final logs."""
    if made.run not in logs:
        yield Finding(fault=Fault.LOST, run=made.run, seq=None, what="the run is gone", operations=(made,))


def check_fork(fork: Fork, logs: Mapping[str, Log]) -> Iterator[Finding]:
    """Below the boundary a fork and its source are one, in the final logs and with the digest that the answer pinned."""
    own, source = logs.get(fork.run), logs.get(fork.source, ())
    if own is None:
        return  # said by check_made
    for seq in range(fork.from_seq):
        mine, theirs = (log[seq] if seq < len(log) else None for log in (own, source))
        if mine is None or mine != theirs:
            what = f"the fork has {mine}, its source {fork.source} has {theirs}"
            yield Finding(fault=Fault.FORK_PREFIX, run=fork.run, seq=seq, what=what, operations=(fork,))
            return
    if fork.from_seq and own[fork.from_seq - 1].digest != fork.prefix_digest:
        what = f"pinned {fork.prefix_digest}, the final log has {own[fork.from_seq - 1].digest}"
        yield Finding(fault=Fault.FORK_PREFIX, run=fork.run, seq=fork.from_seq - 1, what=what, operations=(fork,))
