"""The effect-seam manifest is what the registry says, in the shape that OpenWOP wants, and there is no second list."""

import ast
import re
from pathlib import Path

import pytest

from isoline_client.guard import seams
from isoline_client.guard.isolation import IsolationReport
from isoline_client.guard.manifest import Build, manifest, this_build
from isoline_client.guard.seams.seam import REGISTRY, Registry, Seam, always

KINDS = {"http", "smtp", "queue", "storage", "provider-sdk", "webhook-fanout", "other"}
ISOLATED = IsolationReport(netns=True, landlock=True, call_filter=True)
BARE = IsolationReport(reasons=("network namespace: Operation not permitted",))
SOURCES = Path(seams.__file__).parent.parent


def made(isolation=ISOLATED, registry=REGISTRY):
    return manifest(host="isoline", build=Build(kind="commit", id="abc"), isolation=isolation, registry=registry)


def test_it_has_the_shape():
    document = made()

    assert set(document) == {"manifestVersion", "host", "seams"}
    assert document["manifestVersion"] == "1"
    assert document["host"] == {"name": "isoline", "build": {"kind": "commit", "id": "abc"}}
    for row in document["seams"]:
        assert set(row) - {"note"} == {"seam", "kind", "guarded", "guardedBy", "branchReFires"}
        assert re.fullmatch(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+", row["seam"])
        assert row["kind"] in KINDS
        assert row["guarded"] is True
        assert row["branchReFires"] is True
        assert row["guardedBy"]
        assert row.get("note", "-")
        assert row["kind"] != "other" or row["note"]


def test_every_kind_has_a_seam():
    assert {row["kind"] for row in made()["seams"]} == KINDS


def test_grpc_is_of_kind_other_and_named():
    [row] = [row for row in made()["seams"] if row["seam"] == "grpc.channel"]

    assert row["kind"] == "other"
    assert "gRPC" in row["note"]


def test_a_seam_that_is_added_is_in_it():
    registry = Registry()
    registry.add(Seam(name="pigeon.post", kind="other", module="coop", note="a bird"))

    assert [row["seam"] for row in made(registry=registry)["seams"]] == ["pigeon.post"]


def test_the_real_registry_is_what_is_listed():
    REGISTRY.add(Seam(name="pigeon.post", kind="other", module="coop", note="a bird", events={"coop.open": always}))
    try:
        assert made()["seams"][-1]["seam"] == "pigeon.post"
        assert REGISTRY.events["coop.open"][0] == "pigeon.post"
    finally:
        REGISTRY.remove("pigeon.post")
    assert "coop.open" not in REGISTRY.events


def test_there_is_no_other_list():
    """Outside of the module that adds it, a seam's name stands nowhere in the guard, and nobody names a denied event."""
    names = {seam.name for seam in REGISTRY} | (set(REGISTRY.events) - {"open"})
    owners = {SOURCES / f"seams/{seam.module.rpartition('.')[2]}.py" for seam in REGISTRY}
    for path in set(SOURCES.rglob("*.py")) - owners:
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not names & texts, path


def test_what_the_process_does_not_see_is_said():
    rows = {row["seam"]: row["note"] for row in made()["seams"] if row.get("note")}

    assert "uvloop" in rows["socket.connect"]
    assert "stopped by the replay worker alone" in rows["socket.connect"]


def test_a_host_without_isolation_says_so():
    rows = {row["seam"]: row for row in made(BARE)["seams"]}

    assert "NOT STOPPED on this host" in rows["socket.connect"]["note"]
    assert "replay worker" not in rows["socket.connect"]["guardedBy"]


@pytest.mark.parametrize("name", ["http", "Http.request", "http.", "http..request", "1.request"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="no name"):
        Seam(name=name, kind="http", module="x")


def test_a_seam_of_kind_other_needs_a_note():
    with pytest.raises(ValueError, match="note"):
        Seam(name="a.b", kind="other", module="x")


@pytest.mark.parametrize(
    "second",
    [Seam(name="a.b", kind="http", module="y"), Seam(name="a.c", kind="http", module="y", events={"e": always})],
)
def test_a_name_or_an_event_has_one_seam(second):
    registry = Registry()
    registry.add(Seam(name="a.b", kind="http", module="x", events={"e": always}))

    with pytest.raises(ValueError, match="another seam"):
        registry.add(second)


def test_the_build_is_the_digest_of_what_is_installed():
    build = this_build()

    assert build.kind == "artifact-sha256"
    assert re.fullmatch("[0-9a-f]{64}", build.id)
    assert build == this_build()
