"""Histories: files of events, and the workflow that makes one."""

import json
from pathlib import Path

import pytest

from isoline_client import NewEvent
from isoline_client.cli.demo.history import read_history
from isoline_client.cli.demo.purchase import buy_supplies
from isoline_client.cli.demo.shop import open_shop
from isoline_client.cli.failures import CommandError


def test_a_line_is_an_event_with_its_node(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    path.write_text(
        '{"type":"example.a","timestamp":"2022-08-17T16:27:34.000Z","payload":{"x":1}}\n\n'
        '{"type":"example.b","nodeId":"n","payload":{"at":2},"masked":["/at"]}\n'
    )
    history = read_history(path)
    first, second = history.events
    assert (history.name, first.type, first.payload_bytes, first.node_id) == ("two", "example.a", b'{"x":1}', "")
    assert (second.type, second.node_id, second.masked) == ("example.b", "n", ("/at",))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "Expecting"),
        ("[]", "must be a JSON object"),
        ('{"payload":{}}', "type must be a text"),
        ('{"type":"example.a"}', "payload must be an object"),
        ('{"type":"example.a","payload":{},"nodeId":7}', "nodeId must be a text"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(f'{{"type":"example.a","payload":{{}}}}\n{line}\n')
    with pytest.raises(CommandError, match=rf"wrong\.jsonl:2: .*{complaint}"):
        read_history(path)


def test_an_empty_file_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(CommandError, match="no events"):
        read_history(tmp_path / "empty.jsonl")
    with pytest.raises(CommandError, match="No such file"):
        read_history(tmp_path / "missing.jsonl")


async def test_the_purchase_tells_what_it_really_did() -> None:
    told: list[NewEvent] = []

    async def tell(event: NewEvent) -> None:
        told.append(event)

    with open_shop() as shop:
        await buy_supplies(shop.url, tell)
    types = [event.type for event in told]
    assert (types[0], types[-1]) == ("run.started", "run.completed")
    assert types.count("agent.tool-called") == types.count("agent.tool-returned") > 9
    refused = [event for event in told if b'"status":"error"' in event.payload_bytes]
    assert [json.loads(event.payload_bytes)["error"]["details"]["left"] for event in refused] == [1]
    ended = json.loads(told[-1].payload_bytes)["outputs"]
    assert (len(ended["orders"]), ended["spentCents"]) == (3, 3 * 449 + 2 * 2_450 + 4 * 3_200)
