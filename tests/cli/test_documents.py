import json
from datetime import UTC, datetime

import pytest

from isoline_client.cli.documents import spell, time_text, verbatim


@pytest.mark.parametrize("text", ['{"b":1.0,"a":1e5}', "{}", '{"x":"é\\u00e9 "}'])
def test_stored_json_is_written_as_it_was_spelled(text):
    assert spell({"payload": verbatim(text.encode())}) == f'{{"payload":{text}}}'


def test_stored_json_over_several_lines_comes_on_one_and_means_the_same():
    stored = '{\r\n "a": "x\\ny",\n "b": [1,\n2]\n}'
    spelled = spell({"payload": verbatim(stored.encode())})
    assert "\n" not in spelled
    assert json.loads(spelled)["payload"] == json.loads(stored)


def test_everything_else_is_plain_json():
    value = {'q"': [None, True, 1, "é\n"], "nested": {"a": {}}}
    assert json.loads(spell(value)) == value


def test_times_keep_their_microseconds():
    assert time_text(datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2024-01-02T03:04:05.000000Z"
