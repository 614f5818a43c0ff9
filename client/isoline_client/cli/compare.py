"""``isoline compare``: whether two forks executed to the same."""

from typing import Annotated

import typer

from isoline_client.cli.documents import comparison_document
from isoline_client.cli.failures import Exit
from isoline_client.cli.options import add_command
from isoline_client.cli.output import Output, facts
from isoline_client.cli.session import Session
from isoline_client.values import Comparison


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, compare)


async def compare(
    session: Session,
    *,
    a: Annotated[str, typer.Argument(metavar="FORK_A", help="A fork's id, or its source's.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="FORK_B", help="Another fork's id.", show_default=False)],
) -> int:
    r"""Compare two forks of one source. Exit 0 when they are the same but for declared clock and entropy values, 1 when they are not.

    Before their boundary every byte counts. From it on both were executed, so they are compared twice: byte for byte, and behind the masks
    of what each event declares, without its stamp. While a run has not ended, only what both hold is compared.

    With --json: {"aRunId", "bRunId", "fromSeq", "equal", "prefixEqual", "rawSuffixEqual", "maskedEqual", "comparedEvents", "matchedEvents",
    "score", "firstDivergenceSeq", "truncated"}.

    \b
    isoline compare $REPLAY_EU $REPLAY_US
    isoline compare $RUN $REPLAY --json | jq .firstDivergenceSeq
    """
    async with session.client() as client:
        found = await client.compare(a, b)
    if session.out.json:
        session.out.document(comparison_document(found))
    else:
        _show(session.out, found)
    return Exit.OK if found.equal else Exit.NEGATIVE


def _show(out: Output, found: Comparison) -> None:
    first = "none" if found.first_divergence_seq is None else f"seq {found.first_divergence_seq}"
    out.show(
        facts(
            [
                (f"prefix [0, {found.from_seq})", _verdict(found.prefix_equal)),
                (f"from seq {found.from_seq}, raw", _verdict(found.raw_suffix_equal)),
                (f"from seq {found.from_seq}, masked", _verdict(found.masked_equal)),
                ("first divergence", first),
                ("score", f"{found.matched_events:,}/{found.compared_events:,} events ({found.score:.1%})"),
            ]
        )
    )
    if found.truncated:
        out.note("a run has not ended, so only what both hold was compared")


def _verdict(equal: bool) -> str:
    return "equal" if equal else "different"
