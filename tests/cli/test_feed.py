import asyncio
import os
from itertools import chain

import pytest

from cli.conftest import numbered
from isoline_client.cli import feed as feeding
from isoline_client.cli.failures import CommandError
from isoline_client.cli.feed import Feed
from isoline_client.cli.lines import LineError


def batches_of(name, batch_events=1000):
    async def collect():
        return [[line.number for line in batch.lines] async for batch in feed.batches()]

    feed = Feed(str(name), batch_events=batch_events, keep_timestamp=False)
    return asyncio.run(collect())


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "events.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_file_is_cut_into_full_batches(file):
    assert batches_of(file(numbered(5)), batch_events=2) == [[1, 2], [3, 4], [5]]


def test_the_last_line_needs_no_end_and_blank_lines_count(file):
    one = numbered(1)
    assert batches_of(file(one + "\n  \n" + one.strip())) == [[1, 4]]


@pytest.mark.parametrize("content", ["", "\n\n", "  "])
def test_an_empty_file_has_no_events(file, content):
    assert not any(batches_of(file(content)))


def test_a_batch_is_full_at_its_bytes_too(file, monkeypatch):
    monkeypatch.setattr(feeding, "APPEND_BYTES_MAX", 300)
    assert [len(batch) for batch in batches_of(file(numbered(6)))] == [3, 3]


def test_lines_may_be_longer_than_what_is_read_at_once(file, monkeypatch):
    monkeypatch.setattr(feeding, "_CHUNK_BYTES", 7)
    assert list(chain(*batches_of(file(numbered(40)), batch_events=3))) == list(range(1, 41))


def test_a_bad_line_takes_its_batch_with_it(file):
    async def collect(feed):
        async for batch in feed.batches():
            seen.append(len(batch.lines))  # noqa: PERF401 - what comes before the error counts

    seen = []
    with pytest.raises(LineError, match="line 6: "):
        asyncio.run(collect(Feed(str(file(numbered(5) + "{\n" + numbered(9))), batch_events=2, keep_timestamp=False)))
    assert seen == [2, 2]


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(file):
    with pytest.raises(LineError, match="line 2: is longer than 2097152 bytes"):
        batches_of(file(numbered(1).encode() + b"x" * (feeding.LINE_BYTES_MAX + 1)))


@pytest.mark.parametrize("name", ["", "missing.jsonl"])
def test_what_cannot_be_opened_is_named(tmp_path, name):
    with pytest.raises(CommandError, match=r"directory|No such file"):
        Feed(str(tmp_path / name), batch_events=1, keep_timestamp=False)


async def test_a_pipe_that_pauses_does_not_keep_what_it_brought(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    feed = Feed(str(tmp_path / "pipe"), batch_events=1000, keep_timestamp=False)
    assert feed.size is None
    batches = feed.batches()
    for content in (numbered(3), numbered(1)):
        os.write(writer, content.encode())
        async with asyncio.timeout(5):
            batch = await anext(batches)
        assert len(batch.lines) == content.count("\n")
    await batches.aclose()
    feed.close()
    os.write(writer, b"\n")  # lets the reading thread go
    os.close(writer)
