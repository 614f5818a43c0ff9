"""Commands about runs that are executed, against a server that runs its own executor (``isoline serve --with-executor``)."""

import os
from collections.abc import Callable, Iterator

import pytest

from cli.conftest import Ended
from isoline_client.cli.failures import Exit
from support.counting import Counting
from support.executors import TESTS
from support.servers import ServerProcess
from support.waiting import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def eu(databases) -> Iterator[ServerProcess]:
    """A server with an executor of the tests' workflows beside it."""
    url = databases.cluster.primary.url(database=databases.create())
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), before]))
    server = ServerProcess(url, {"eu": url}, "eu", options=("--with-executor", "flows.shop"))
    try:
        yield server.start()
        assert server.terminate() == 0, server.log.read_text()
    finally:
        server.close()
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def ended(isoline: Callable[..., Ended], run: str) -> bool:
    return isoline("run", "show", run, "--json").json["terminalSeq"] is not None


def start(isoline: Callable[..., Ended], workflow: str, outside: Counting) -> str:
    return isoline("run", "start", workflow, "--inputs", f'{{"url": "{outside.url}"}}').out.strip()


def test_a_run_is_started_and_waited_for(isoline, outside: Counting) -> None:
    inputs = f'{{"url": "{outside.url}"}}'
    found = isoline("run", "start", "order", "--inputs", inputs, "--wait", "--json")
    assert found.code == 0, found.err
    assert found.json["end"]["type"] == "run.completed"
    assert outside.count == 1


def test_a_run_that_fails_is_a_negative_answer(isoline) -> None:
    found = isoline("run", "start", "failing", "--wait")
    assert found.code == Exit.NEGATIVE
    assert "run.failed" in found.out


def test_a_replay_is_executed_and_suppressed(isoline, outside: Counting) -> None:
    run = start(isoline, "order", outside)
    wait_until(lambda: ended(isoline, run), what="the end of the run")
    replay = isoline("fork", run, "--mode", "replay").out.strip()
    wait_until(lambda: ended(isoline, replay), what="the end of the replay")
    assert outside.count == 1


def test_a_dry_run_says_what_would_be_fired_and_makes_nothing(isoline, outside: Counting) -> None:
    run = start(isoline, "loop", outside)
    wait_until(lambda: ended(isoline, run), what="the end of the run")
    runs = isoline("run", "list", "--limit", "0", "--json").lines
    branch = isoline("fork", run, "--from", "0", "--dry-run", "--json").json
    assert [each["cost"] for each in branch["effects"]] == [{"currency": "EUR", "amount": "0.01"}] * 3
    assert (branch["fires"], branch["suppresses"]) == (3, 0)
    assert [effect["nodeId"] for effect in branch["effects"]] == ["mail"] * 3
    assert branch["effects"][0]["seam"] == "http.request"
    replay = isoline("fork", run, "--mode", "replay", "--dry-run", "--json").json
    assert (replay["fires"], replay["suppresses"]) == (0, 3)
    assert "3 effects would be fired again by a branch" in isoline("fork", run, "--from", "0", "--dry-run").out
    assert isoline("run", "list", "--limit", "0", "--json").lines == runs


def test_an_approval_is_answered(isoline, outside: Counting) -> None:
    run = start(isoline, "approval", outside)
    unknown = isoline("interrupt", "resolve", run, "ask", "--value", "1", "--action", "rejected")
    assert (unknown.code, "--action: must be one of accept" in unknown.err) == (Exit.USAGE, True)
    wait_until(
        lambda: isoline("interrupt", "resolve", run, "ask", "--value", '{"ok": true}').code == 0, what="the question"
    )
    wait_until(lambda: ended(isoline, run), what="the end of the run")
    again = isoline("interrupt", "resolve", run, "ask", "--value", "1")
    assert (again.code, "waits for no answer" in again.err) == (Exit.USAGE, True)


def test_a_run_is_cancelled(isoline, outside: Counting) -> None:
    run = start(isoline, "endless", outside)
    assert isoline("run", "cancel", run, "--reason", "enough", "--by", "ada").code == 0
    wait_until(lambda: ended(isoline, run), what="the end of the run")
    assert '"cancelledBy":"ada"' in isoline("read", run, "--json").out


def test_a_run_is_paused_and_resumed(isoline, outside: Counting) -> None:
    outside.hold()
    run = start(isoline, "order", outside)
    outside.wait_for(1)
    assert isoline("run", "pause", run).code == 0
    outside.release()
    wait_until(lambda: "node.completed" in isoline("read", run).out.rpartition("run.paused")[2], what="the node's end")
    assert not ended(isoline, run)
    assert isoline("run", "resume", run).code == 0
    wait_until(lambda: ended(isoline, run), what="the end of the run")


def test_an_effect_in_doubt_is_listed_and_resolved(isoline, outside: Counting) -> None:
    outside.hang_up("/charge")
    run = start(isoline, "order", outside)

    def in_doubt() -> list:
        return [each for each in isoline("effects", "list", "--in-doubt", "--json").lines if each["runId"] == run]

    (effect,) = wait_until(in_doubt, what="the effect in doubt")
    assert (effect["nodeId"], effect["seam"], effect["state"]) == ("charge", "http.request", "in_doubt")
    outcome = '{"status": 201, "headers": {}, "text": "{}"}'
    resolve = ("effects", "resolve", run, effect["effectId"], "--by", "ada")
    assert isoline(*resolve).code == Exit.USAGE
    assert isoline(*resolve, "--did-not-happen", "--outcome", "1").code == Exit.USAGE
    assert isoline(*resolve, "--happened", "--outcome", outcome).code == 0
    wait_until(lambda: ended(isoline, run), what="the end of the run")
    assert outside.count == 1
    (listed,) = isoline("effects", "list", run, "--json").lines
    assert (listed["state"], listed["resolvedBy"]) == ("completed", "ada")
    assert "completed" in isoline("effects", "list", run).out


def test_effects_of_everybody_need_a_state(isoline) -> None:
    assert isoline("effects", "list").code == Exit.USAGE


def test_an_unknown_module_is_said(isoline) -> None:
    found = isoline("executor", "--workflows", "no.such.module")
    assert found.code == Exit.USAGE
    assert "no.such" in found.err or "No module named 'no'" in found.err


def test_a_duration_is_checked(isoline) -> None:
    found = isoline("executor", "--workflows", "flows.shop", "--lease-ttl", "fast")
    assert (found.code, "--lease-ttl" in found.err) == (Exit.USAGE, True)
