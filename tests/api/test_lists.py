"""Lists: pages, and tokens that are good for one caller and one list only."""

import base64
import json
from hashlib import sha256

import pytest

from api.wire import refused


@pytest.fixture(scope="module")
async def listed(wire):
    """The ids of seven runs of one workflow, newest first, in two regions."""
    made = [await wire.new_run(workflow_id="listed", home_region="us" if n % 3 else "eu") for n in range(7)]
    return made[::-1]


async def walk(wire, **fields):
    """Every page's ids."""
    pages, token = [], ""
    while True:
        answer = await wire.list(page_token=token, **fields)
        pages.append([run.run_id for run in answer.runs])
        token = answer.next_page_token
        if not token:
            return pages


@pytest.mark.parametrize("page_size", [1, 2, 3, 7, 50])
async def test_pages_together_are_the_whole_list_newest_first(wire, listed, page_size):
    pages = await walk(wire, workflow_id="listed", page_size=page_size)
    assert [run_id for page in pages for run_id in page] == listed
    assert all(len(page) == page_size for page in pages[:-1])


async def test_a_run_made_meanwhile_is_not_met_twice(wire):
    for _ in range(3):
        await wire.new_run(workflow_id="growing")
    first = await wire.list(workflow_id="growing", page_size=2)
    await wire.new_run(workflow_id="growing")
    second = await wire.list(workflow_id="growing", page_size=2, page_token=first.next_page_token)
    assert len({run.run_id for run in [*first.runs, *second.runs]}) == 3


async def test_a_page_is_never_larger_than_the_limit(wire, listed):
    assert (await wire.list(workflow_id="listed", page_size=2**31 - 1)).next_page_token == ""


async def test_a_negative_page_size_is_refused(wire):
    told = await refused(wire.list(page_size=-1))
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "page_size")


async def test_a_bad_workflow_id_is_refused(wire):
    told = await refused(wire.list(workflow_id="has a space"))
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "workflow_id")


async def test_the_runs_of_a_list_have_their_heads_and_origins(wire):
    source = await wire.new_run(3, workflow_id="origins")
    child = (await wire.fork(source, 2)).run
    runs = {run.run_id: run for run in (await wire.list(workflow_id="origins")).runs}
    assert (runs[source].head.seq, runs[child.run_id].fork) == (2, child.fork)


# -- tokens that are not ours --------------------------------------------------------------------------------------------------------


async def a_token(wire):
    return (await wire.list(workflow_id="listed", page_size=1)).next_page_token


def invalid(told):
    return (told.code.name, told.reason, told.field) == ("INVALID_ARGUMENT", "PAGE_TOKEN_INVALID", "page_token")


@pytest.mark.parametrize(
    "garbage", ["x", "AAAA", "%%%%", "ünïcödé", "=", "A" * 100_000, "\0"], ids=lambda text: repr(text[:9])
)
async def test_garbage_is_no_token(wire, garbage):
    assert invalid(await refused(wire.list(page_token=garbage)))


@pytest.mark.parametrize("workflow_id", ["", "other"])
async def test_a_token_of_another_filter_is_refused(wire, listed, workflow_id):
    assert invalid(await refused(wire.list(workflow_id=workflow_id, page_token=await a_token(wire))))


@pytest.mark.parametrize("place", [0, 10, 25, -1])
async def test_a_token_that_was_changed_is_refused(wire, listed, place):
    token = await a_token(wire)
    changed = list(token)
    changed[place] = "A" if changed[place] != "A" else "Q"
    assert invalid(await refused(wire.list(workflow_id="listed", page_token="".join(changed))))


async def test_a_token_that_was_cut_is_refused(wire, listed):
    token = await a_token(wire)
    assert invalid(await refused(wire.list(workflow_id="listed", page_token=token[:-4])))


def forged(body):
    """A token as somebody makes it who has read the source."""
    data = json.dumps(body).encode()
    seal = sha256(b"\0".join((b"isoline.v1 list token", b"local", b"", data))).digest()[:16]
    return base64.urlsafe_b64encode(seal + data).decode().rstrip("=")


@pytest.mark.parametrize(
    "body",
    [
        ["now", "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"],
        [10**30, "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"],
        [-(10**30), "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"],
        [2**63 - 1, "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"],
        [1.5, "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"],
        [True, "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"],
        [1, "a\0b"],
        [1, None],
        [1, "acme/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"],
        [{}, []],
        [1],
        {"a": 1, "b": 2},
        7,
    ],
    ids=str,
)
async def test_a_forged_token_is_refused_whatever_it_holds(wire, body):
    assert invalid(await refused(wire.list(page_token=forged(body))))
