"""``isoline seams``, without any server."""

import json

from typer.testing import CliRunner

from isoline_client.cli.program import make_app
from isoline_client.guard import probe
from isoline_client.guard.seams import REGISTRY


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(make_app(), ["seams", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_as_json_it_is_the_manifest():
    document = json.loads(invoke("--json"))

    assert [row["seam"] for row in document["seams"]] == [seam.name for seam in REGISTRY]
    assert document["host"]["build"]["kind"] == "artifact-sha256"


def test_for_people_it_says_what_each_layer_does_not_see_and_whether_the_last_one_holds():
    said = invoke()

    for seam in REGISTRY:
        assert seam.name in said
        assert seam.unseen in said
    assert ("holds here" if probe().complete else "does NOT hold here") in said
