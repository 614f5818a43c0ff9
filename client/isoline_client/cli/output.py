"""Showing: results on stdout, everything else on stderr; tables for people, one JSON object a line for machines.

What comes from a log is shown as text and never obeyed: no markup, and control characters are spelled out. Colours follow NO_COLOR and
whether a terminal is there. Where there is none, nothing is shortened to a width. What a value is in JSON stands in ``documents``.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich import box
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from isoline_client.cli.documents import spell
from isoline_client.cli.failures import Failure

_ANY_WIDTH: Final = 100_000
"""As wide as whatever is printed: for output that no terminal cuts."""


Advance = Callable[[int], None]
"""Moves a progress bar by so many steps."""


class Output:
    """Where a command's words go."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.people = _console(stderr=False)
        self.aside = _console(stderr=True)

    # -- results, on stdout ------------------------------------------------------------------------------------------------------

    def document(self, value: dict[str, Any]) -> None:
        """One JSON object, on a line of its own. Always UTF-8."""
        self.raw(spell(value).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        sys.stdout.buffer.write(data)

    def show(self, *what: RenderableType) -> None:
        """A table or text for people. Plain strings are cleaned; they may not hold line ends."""
        for each in what:
            self.people.print(clean(each) if isinstance(each, str) else each, no_wrap=True)

    def line(self, text: Text) -> None:
        """One line of a long listing: cut at the terminal's edge, never wrapped."""
        if self.people.is_terminal:
            self.people.print(text, no_wrap=True, overflow="ellipsis", crop=True)
        else:
            sys.stdout.write(text.plain + "\n")

    def flush(self) -> None:
        """Hand over what is still buffered."""
        sys.stdout.flush()

    # -- asides, on stderr -------------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """A remark for people; machines do not get it."""
        if not self.json:
            self.aside.print(Text(clean(text), "dim"), soft_wrap=True)

    def warn(self, text: str) -> None:
        """A remark that matters to whoever reads stderr, also beside JSON."""
        self.aside.print(Text(clean(text), "yellow"), soft_wrap=True)

    def failure(self, failure: Failure) -> None:
        """Say why the command failed."""
        if self.json:
            sys.stderr.write(spell({"error": _failure_document(failure)}) + "\n")
            return
        said = Text("isoline: ", "bold red") + Text(clean(failure.message))
        if failure.reason:
            said.append(f" [{failure.reason}]", "dim")
        self.aside.print(said, soft_wrap=True)
        unsaid = [f"{name}={value}" for name, value in failure.details.items() if str(value) not in failure.message]
        if unsaid:
            pairs = "  ".join(unsaid)
            self.aside.print(Text(f"  {clean(pairs)}", "dim"), soft_wrap=True)
        for hint in failure.hints:
            self.aside.print(Text(f"  {clean(hint)}"), soft_wrap=True)

    @contextmanager
    def progress(self, what: str, *, total: int | None, unit: str = "events") -> Iterator[Advance]:
        """A bar on stderr while the work goes on; nothing where stderr is no terminal."""
        counted = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), counted, TimeElapsedColumn())
        with Progress(*columns, console=self.aside, transient=True, disable=not self.aside.is_terminal) as bars:
            task = bars.add_task(clean(what), total=total)

            yield lambda steps: bars.update(task, advance=steps)


def clean(text: str) -> str:
    """The text with everything that could move a cursor or hide something spelled out."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(ord(each)) for each in text)


def counted(number: int, what: str) -> str:
    """``1 event``, ``2,000 events``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table; the columns in ``numbers`` stand to the right. Ids are folded rather than cut."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    right = set(numbers)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def add_row(to: Table, *cells: object, style: str = "") -> None:
    """Add a row of plain values; None is left blank."""
    to.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell), style) for cell in cells))


def facts(pairs: Sequence[tuple[str, object]]) -> Table:
    """Names and values under each other; what is None or empty is left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            made.add_row(name, Text(_cell(value)))
    return made


def _cell(value: object) -> str:
    return "" if value is None else clean(f"{value:,}" if type(value) is int else str(value))


def _escape(point: int) -> str:
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


class _Console(Console):
    """A console that lets a broken pipe be the command's business."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _ANY_WIDTH
    return _Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def _failure_document(failure: Failure) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "reason": failure.reason,
        "message": failure.message,
        "details": failure.details,
        "hints": list(failure.hints),
        "exitCode": int(failure.exit_code),
    }
