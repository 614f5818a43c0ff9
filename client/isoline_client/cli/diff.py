"""``isoline diff``: in what two runs differ."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from isoline_client.cli.documents import diff_document
from isoline_client.cli.failures import Exit
from isoline_client.cli.options import add_command
from isoline_client.cli.output import Output, clean, counted
from isoline_client.cli.session import Session
from isoline_client.events import EventContent
from isoline_client.values import Diff, EventDiff


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, diff)


async def diff(
    session: Session,
    *,
    a: Annotated[str, typer.Argument(metavar="A", help="A run's id.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another run's id.", show_default=False)],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Show at most so many events.")] = 1000,
) -> int:
    r"""Compare two runs by seq: their events and their states. Exit 0 when nothing differs, 1 when something does.

    While a run has not ended, only what both hold is compared. Events shared by a fork are equal by construction and not read.

    With --json: {"aRunId", "bRunId", "equal", "divergedAtSeq", "sharedEvents", "truncated", "eventDiffs": [{"seq", "op": "added", "removed"
    or "changed", "a", "b"}], "stateDiff"}, where a and b are {"type", "nodeId"?, "payload", ...} or null.

    \b
    isoline diff $RUN $FORK
    isoline diff $RUN $FORK --json | jq .divergedAtSeq
    """
    async with session.client() as client:
        found = await client.diff(a, b, max_event_diffs=limit)
    equal = found.diverged_at_seq is None and found.state_diff in (b"", b"{}")
    if session.out.json:
        session.out.document(diff_document(found, equal=equal))
    else:
        _show(session.out, found, equal=equal, limit=limit)
    return Exit.OK if equal else Exit.NEGATIVE


def _show(out: Output, found: Diff, *, equal: bool, limit: int) -> None:
    for each in found.event_diffs:
        for line in _lines(each):
            out.line(line)
    if found.state_diff not in (b"", b"{}"):
        out.show(Text(f"state {clean(found.state_diff.decode())}"))
    verdict = "equal" if equal else "different"
    where = "" if found.diverged_at_seq is None else f" from seq {found.diverged_at_seq}"
    out.note(f"{verdict}{where}; {counted(found.shared_events, 'event')} shared by lineage{_caveat(found, limit)}")


def _caveat(found: Diff, limit: int) -> str:
    if not found.truncated:
        return ""
    if len(found.event_diffs) >= limit:
        return f"; not more than {limit} differences are shown"
    return "; a run has not ended, so only what both hold was compared"


def _lines(each: EventDiff) -> Iterator[Text]:
    for mark, style, content in (("-", "red", each.a_event), ("+", "green", each.b_event)):
        if content is not None:
            yield Text(f"{mark}{each.seq:>6}  {_said(content)}", style)


def _said(content: EventContent) -> str:
    return f"{clean(content.type):<32}  {clean(content.node_id):<16}  {clean(content.payload_bytes.decode())}"
