"""``isoline verify``: does every region hold the same history?"""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from isoline_client.cli.failures import CommandError, Exit, describe
from isoline_client.cli.hosts import Answer, ask
from isoline_client.cli.options import RunArgument, add_command
from isoline_client.cli.output import Output, add_row, table
from isoline_client.cli.proof import Comparison, Proof, compare
from isoline_client.cli.session import Session
from isoline_client.errors import IsolineError


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, verify)


async def verify(
    session: Session,
    *,
    run_id: RunArgument,
    regions: Annotated[
        str,
        typer.Option(
            "--regions",
            metavar="all|REGION,REGION",
            help="The regions that must prove it; all: every region of the service.",
        ),
    ] = "all",
    until_seq: Annotated[
        int | None,
        typer.Option(
            "--until", min=0, metavar="SEQ", help="Compare [0, SEQ). Else up to the smallest head.", show_default=False
        ),
    ] = None,
    local_only: Annotated[
        bool, typer.Option("--local", help="Count only what each region's own replica holds.")
    ] = False,
) -> int:
    r"""Prove that every region holds the same prefix, byte for byte.

    The prefix is read from every region at once and its chain is computed here, from the bytes: no server's digest is believed. All are
    compared at one seq, the smallest head that a region tells, so appends that go on meanwhile do not disturb.

    "source" says where a region had the bytes: "local" from its own replica, "leader" where that was behind or damaged, "stale" when the
    leader does not answer. --local accepts only the first.

    Exit 0 when all are equal; 1 when a region differs or its bytes do not verify, and it is said at which seq; 3 or 4 when a region refuses
    or does not answer, and so cannot prove it.

    With --json: {"runId", "equal", "untilSeq", "digest", "regions": [{"region", "address", "verdict", "ok", "headSeq", "seq", "digest",
    "source", "ms", "differsAtSeq", "brokenAtSeq", "error"}]}.

    \b
    isoline verify $RUN
    isoline verify $RUN --regions eu,us --until 1000
    isoline verify $RUN --local --json
    """
    async with AsyncExitStack() as stack:
        proofs = await _participants(session, regions, stack)
        with session.out.progress(f"verify {run_id}", total=None) as advance:
            found = await compare(proofs, run_id, until_seq, local_only=local_only, advance=advance)
    if session.out.json:
        session.out.document(_document(run_id, found))
    else:
        _show(session.out, found)
    return found.exit_code


async def _participants(session: Session, regions: str, stack: AsyncExitStack) -> list[Proof]:
    """The regions that must prove it; one that cannot has its reason already."""
    answers = await asyncio.gather(*(ask(session, server) for server in session.servers.listed))
    by_region = {region_of(answer): answer for answer in reversed(answers)}
    names = list(dict.fromkeys(each.strip() for each in regions.split(",") if each.strip()))
    if regions.strip() == "all":
        names = list(dict.fromkeys([*map(region_of, answers), *await _all_regions(session, answers)]))
    if not names:
        raise CommandError("--regions: names no region")
    return [await _participant(session, name, by_region.get(name), stack) for name in names]


def region_of(answer: Answer) -> str:
    """The region as it was given; else as the server says; else its address."""
    if answer.server.region or answer.status is None:
        return answer.server.label
    return answer.status.region


async def _all_regions(session: Session, answers: list[Answer]) -> tuple[str, ...]:
    """Every region of the service, as the first server that answers names them."""
    for answer in answers:
        if answer.status is not None:
            async with session.client_of(answer.server) as client:
                try:
                    return (await client.capabilities()).regions
                except IsolineError:
                    continue
    return ()


async def _participant(session: Session, name: str, answer: Answer | None, stack: AsyncExitStack) -> Proof:
    if answer is None:
        missing = CommandError(f"no address of it is known; give --server {name}=HOST:PORT", Exit.UNAVAILABLE)
        return Proof(name, error=missing)
    proof = Proof(name, answer.server.address, error=answer.error)
    if answer.status is not None and answer.status.region != name:
        proof.error = CommandError(f"the server at {proof.address} is that of {answer.status.region}", Exit.USAGE)
    if proof.error is None:
        proof.client = await stack.enter_async_context(session.client_of(answer.server))
    return proof


def _show(out: Output, found: Comparison) -> None:
    out.show(_table(found))
    proven = sum(proof.exit_code is Exit.OK for proof in found.proofs)
    said = Text(f"[0, {found.until_seq}): ", "bold")
    if found.exit_code is Exit.OK:
        said.append(
            f"equal in {proven} regions" if proven > 1 else "verified; there is no second region to compare with",
            "green",
        )
    else:
        said.append(f"not proven by {len(found.proofs) - proven} of {len(found.proofs)} regions", "bold red")
    out.show(said)


def _table(found: Comparison) -> Table:
    made = table("region", "seq", "digest", "source", "ms", "", numbers=["seq", "ms"])
    for proof in found.proofs:
        last = proof.last
        style = "green" if proof.exit_code is Exit.OK else "bold red"
        add_row(
            made,
            proof.region,
            None if last is None else last.seq,
            None if last is None else last.digest.hex(),
            proof.source,
            f"{proof.ms:.1f}" if proof.ms else None,
            Text(proof.verdict, style),
        )
    return made


def _document(run_id: str, found: Comparison) -> dict[str, Any]:
    last = None if found.reference is None else found.reference.last
    return {
        "runId": run_id,
        "equal": found.exit_code is Exit.OK,
        "untilSeq": found.until_seq,
        "digest": None if last is None else last.digest.hex(),
        "regions": [_proof_document(proof) for proof in found.proofs],
    }


def _proof_document(proof: Proof) -> dict[str, Any]:
    last = proof.last
    return {
        "region": proof.region,
        "address": proof.address or None,
        "verdict": proof.verdict,
        "ok": proof.exit_code is Exit.OK,
        "headSeq": proof.head_seq,
        "seq": None if last is None else last.seq,
        "digest": None if last is None else last.digest.hex(),
        "source": proof.source or None,
        "ms": round(proof.ms, 1),
        "differsAtSeq": proof.differs_at,
        "brokenAtSeq": proof.broken_at,
        "error": None if proof.error is None else describe(proof.error).kind,
    }
