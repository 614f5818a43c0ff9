"""One run of the demo: the cluster around it, the steps in it, the report behind it."""

import time
from collections.abc import Sequence
from pathlib import Path

from isoline_client.cli.demo import order, report
from isoline_client.cli.demo.history import read_history
from isoline_client.cli.demo.steps import prove
from isoline_client.cli.demo.up import running_cluster
from isoline_client.cli.failures import Exit
from isoline_client.cli.output import Output


async def demonstrate(out: Output, files: Sequence[Path], *, data_dir: Path | None, keep: bool) -> int:
    """Run the demo; return the exit code."""
    histories = [read_history(path) for path in files]
    begun_s = time.monotonic()

    def say(text: str) -> None:
        out.aside.print(f"isoline demo: {text}", style="dim", soft_wrap=True)

    say("starting three regions on this machine")
    async with running_cluster(data_dir=data_dir, keep=keep, workflows=order.__name__) as cluster:
        say(f"they run ({time.monotonic() - begun_s:.1f} s)")
        found = await prove(cluster, histories, say)
    seconds = time.monotonic() - begun_s
    if out.json:
        out.document(report.document(found, seconds=seconds, data_dir=cluster.data_dir))
    else:
        report.show(out, found, seconds=seconds)
    if keep:
        report.next_steps(out, found, cluster.data_dir)
    return Exit.OK if found.ok else Exit.NEGATIVE
