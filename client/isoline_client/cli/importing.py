"""``isoline import``: a run of a v1 host, taken over whole."""

import re
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from isoline_client.cli.documents import run_document
from isoline_client.cli.failures import CommandError
from isoline_client.cli.options import add_command
from isoline_client.cli.output import Advance, Output, counted
from isoline_client.cli.parsing import note_request_id
from isoline_client.cli.runs import HomeOption, RequestIdOption
from isoline_client.cli.session import Session
from isoline_client.errors import InvalidRequest, IsolineError, TooLarge
from isoline_client.values import ImportReport

_EVENT: Final = re.compile(r"events\[(?P<seq>\d+)\]\.?")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, import_run, "import")


async def import_run(
    session: Session,
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines.", show_default=False)],
    era: Annotated[
        int, typer.Option("--era", min=2, max=2, metavar="2", help="The vocabulary of the log: 2 is that of v1 hosts.")
    ] = 2,
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow", "-w", metavar="WORKFLOW", help="Else the workflowId of the first event.", show_default=False
        ),
    ] = "",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", help="May be given more than once.", show_default=False)
    ] = None,
    subject_id: Annotated[
        str,
        typer.Option("--subject-id", metavar="ID", help="Whose run it was.  \\[default: legacy]", show_default=False),
    ] = "",
    lane: Annotated[
        str,
        typer.Option("--lane", metavar="LANE", help="How they signed in.  \\[default: api-key]", show_default=False),
    ] = "",
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="What they are.  \\[default: user]", show_default=False)
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Have the server check and translate it, and store nothing.")
    ] = False,
    home: HomeOption = "",
    request_id: RequestIdOption = None,
) -> None:
    r"""Take over a run that a v1 host wrote, and print its id. All of it or nothing: nobody sees it before its last event is stored.

    A line is {"eventId", "type", "payload", "timestamp", "sequence", "nodeId"?, "causationId"?, "schemaVersion"?, "engineVersion"?,
    "runId"?}; sequences count from 0 without a hole. The lines are stored as they are. Readers see them translated: v1 names become v2
    names, and a run.started without an owner gets the legacy one that --subject-id, --lane and --kind describe.

    An event that has no v2 form is stored as well, and named here. Nobody can read it, or fork behind it: see --dry-run.

    With --json the new run, as `isoline run show` gives it (null after --dry-run), "repeated", "events", "untranslatableEvents" and the
    first few of them.

    \b
    isoline import run-17.jsonl --era 2 --dry-run
    RUN=$(isoline import run-17.jsonl --era 2 --workflow invoice-import)
    """
    assert era == 2
    log = LegacyLog(file)
    async with session.client() as client:
        with session.out.progress(f"import {file.name}", total=log.size, unit="bytes") as advance:
            log.advance = advance
            try:
                report = await client.import_run(
                    log,
                    workflow_id=workflow,
                    tags=tag or (),
                    home_region=home or session.region,
                    subject_id=subject_id,
                    lane=lane,
                    kind=kind,
                    check_only=dry_run,
                    request_id=request_id,
                )
            except IsolineError as error:
                raise log.located(error) from None
    _show(session.out, report, dry_run=dry_run)


class LegacyLog(Collection[bytes]):
    """The lines of a file, blank ones left out, read anew each time. Raises ``CommandError`` when it cannot be read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._numbers = array("q")
        self._readings = 0
        self.advance: Advance = lambda _: None
        """Told of the bytes of every reading but the first, which only counts and hashes."""
        try:
            self.size = file.stat().st_size
        except OSError as error:
            raise _unreadable(file, error) from error

    def __iter__(self) -> Iterator[bytes]:
        self._readings += 1
        numbers = array("q")
        try:
            with self._file.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    document = line.rstrip(b"\r\n")
                    if document.strip():
                        numbers.append(number)
                        yield document
                    if self._readings > 1:
                        self.advance(len(line))
        except OSError as error:
            raise _unreadable(self._file, error) from error
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, document: object) -> bool:
        return any(document == each for each in self)

    def located(self, error: IsolineError) -> IsolineError | CommandError:
        """The error, with the line in place of the place in the log where it names one."""
        place = _EVENT.match(error.field) if isinstance(error, InvalidRequest | TooLarge) else None
        if place is None or int(place["seq"]) >= len(self._numbers):
            return note_request_id(error)
        line = self._numbers[int(place["seq"])]
        text = str(error).replace(place[0], "", 1).lstrip(": ")
        return CommandError(f"{self._file}: line {line}: {text}", line=line, field=error.metadata.get("field", ""))


def _unreadable(file: Path, error: OSError) -> CommandError:
    return CommandError(f"{file}: {error.strerror or error}")


def _show(out: Output, report: ImportReport, *, dry_run: bool) -> None:
    run, events = report.run, report.run.head.seq + 1
    if out.json:
        out.document(_document(report, dry_run=dry_run))
    elif not dry_run:
        out.show(run.run_id)
    for each in report.untranslatable:
        out.warn(each.message)
    if report.repeated:
        out.note("an earlier call with this request id had imported it")
    elif dry_run:
        bad = report.untranslatable_events
        found = f"{counted(bad, 'event')} without a v2 form" if bad else "all have a v2 form"
        out.note(f"checked {counted(events, 'event')} of workflow {run.workflow_id}: {found}; nothing was stored")


def _document(report: ImportReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        **(run_document(report.run) | ({"runId": None} if dry_run else {})),
        "repeated": report.repeated,
        "events": report.run.head.seq + 1,
        "untranslatableEvents": report.untranslatable_events,
        "untranslatable": [
            {"seq": each.seq, "reason": each.reason, "message": each.message} for each in report.untranslatable
        ],
    }
