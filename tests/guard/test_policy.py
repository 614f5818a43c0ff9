"""The policy: nested, reset, side by side, and carried to wherever a node's work goes."""

import asyncio
import concurrent.futures
import contextlib
import socket
import sys
import threading
import time

import pytest

from isoline_client import guard
from isoline_client.guard import EffectDenied, Policy, current, enter
from isoline_client.guard.seams import GuardedQueue, GuardedStorage, LocalStorage, guarded_provider, guarded_webhook
from isoline_client.workflow.errors import NodeError


def policy() -> Policy:
    return current().policy


def in_thread(work):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return pool.submit(work).result()


def test_outside_of_nodes_it_is_open():
    assert policy() is Policy.OPEN


def test_scopes_nest_and_are_left():
    with enter(Policy.REPLAY):
        with enter(Policy.EFFECTS):
            assert policy() is Policy.EFFECTS
        assert policy() is Policy.REPLAY
    assert policy() is Policy.OPEN


def test_a_scope_is_left_by_an_exception_too():
    with contextlib.suppress(KeyError), enter(Policy.PURE):
        raise KeyError
    assert policy() is Policy.OPEN


async def test_nodes_side_by_side_have_their_own():
    met = asyncio.Barrier(3)

    async def node(own: Policy) -> Policy:
        with enter(own):
            await met.wait()
            return policy()

    wanted = [Policy.PURE, Policy.EFFECTS, Policy.REPLAY]
    assert await asyncio.gather(*(node(each) for each in wanted)) == wanted
    assert policy() is Policy.OPEN


async def test_tasks_and_threads_of_a_node_share_its_scope():
    with enter(Policy.REPLAY) as scope:

        async def task() -> guard.Scope:
            return current()

        found = [
            await asyncio.create_task(task()),
            await asyncio.to_thread(current),
            await asyncio.get_running_loop().run_in_executor(None, current),
        ]
    assert found == [scope, scope, scope]
    assert await asyncio.get_running_loop().run_in_executor(None, policy) is Policy.OPEN


def test_a_thread_that_began_outside_stays_outside():
    asked, seen = threading.Event(), []
    thread = threading.Thread(target=lambda: (asked.wait(), seen.append(policy())))
    thread.start()
    with enter(Policy.REPLAY):
        asked.set()
        thread.join()
    assert seen == [Policy.OPEN]


def test_a_thread_keeps_the_policy_of_its_node_when_the_node_is_over():
    go, seen = threading.Event(), []
    with enter(Policy.REPLAY):
        thread = threading.Thread(target=lambda: (go.wait(), seen.append(policy())))
        thread.start()
    go.set()
    thread.join()
    assert seen == [Policy.REPLAY]


def test_a_pool_that_a_node_started_does_later_work_under_the_later_policy():
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        with enter(Policy.REPLAY):
            assert pool.submit(policy).result() is Policy.REPLAY
        assert pool.submit(policy).result() is Policy.OPEN


def test_a_timer_carries_it():
    seen = []
    with enter(Policy.PURE):
        timer = threading.Timer(0, lambda: seen.append(policy()))
        timer.start()
        timer.join()
    assert seen == [Policy.PURE]


def test_a_denial_is_remembered_when_the_node_swallows_it():
    with enter(Policy.PURE) as scope, contextlib.suppress(Exception), socket.socket() as tried:
        tried.connect(("127.0.0.1", 9))
    [denied] = scope.denied
    assert denied.seam == "socket.connect"


def test_a_denial_in_a_thread_is_remembered():
    with enter(Policy.PURE) as scope, contextlib.suppress(EffectDenied):
        in_thread(lambda: socket.getaddrinfo("localhost", 80))
    assert [each.seam for each in scope.denied] == ["socket.connect"]


def test_a_denial_is_a_failure_of_the_node_that_is_not_tried_again():
    with enter(Policy.PURE), pytest.raises(NodeError) as caught:
        guard.ask("http.request", "GET /")
    error = caught.value
    assert (error.code, error.retryable) == ("isoline.effect_denied", False)
    assert "http.request" in error.message


def test_live_and_replay_fail_with_the_same_words():
    said = []
    for each in (Policy.PURE, Policy.REPLAY):
        with enter(each), pytest.raises(EffectDenied) as caught:
            guard.ask("http.request")
        said.append((str(caught.value), caught.value.details))
    assert said[0] == said[1]


@pytest.mark.parametrize("open_to", [Policy.OPEN, Policy.EFFECTS])
def test_what_may_leave_may(open_to):
    with enter(open_to):
        guard.ask("http.request")


@pytest.mark.parametrize("closed", [Policy.PURE, Policy.REPLAY])
def test_asyncio_itself_works_in_a_node(closed):
    """A loop has a pair of sockets to wake itself, threads wake it, tasks sleep."""

    async def work() -> str:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        threading.Thread(target=lambda: loop.call_soon_threadsafe(woken.set)).start()
        await asyncio.sleep(0)
        await woken.wait()
        return await asyncio.to_thread(lambda: "done")

    with enter(closed) as scope:
        assert asyncio.run(work()) == "done"
    assert not scope.denied


def test_reading_and_computing_are_no_effects(tmp_path):
    (tmp_path / "data").write_text("x")
    with enter(Policy.PURE) as scope:
        assert (tmp_path / "data").read_text() == "x"
        assert [each.name for each in tmp_path.iterdir()] == ["data"]
        assert time.time() > 0
    assert not scope.denied


def test_a_late_import_in_a_node_writes_no_byte_code(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("import ctypes")
    monkeypatch.syspath_prepend(str(tmp_path))
    with enter(Policy.PURE) as scope:
        import imported_late  # noqa: F401
    assert not scope.denied
    assert sys.dont_write_bytecode


def test_installing_twice_changes_nothing():
    before = threading.Thread.start, len(sys.meta_path)
    guard.install()
    assert (threading.Thread.start, len(sys.meta_path)) == before


# The seams that are wrapped by hand


class Sent(list):
    async def publish(self, topic, body, *, key=""):
        self.append((topic, body, key))


async def test_a_queue_asks():
    sent = Sent()
    queue = GuardedQueue(sent)
    await queue.publish("topic", b"1", key="k")
    with enter(Policy.REPLAY) as scope, pytest.raises(EffectDenied):
        await queue.publish("topic", b"2")
    assert sent == [("topic", b"1", "k")]
    assert scope.denied[0].seam == "queue.publish"


@pytest.mark.parametrize("call", [("put", "a", b"2"), ("get", "a"), ("delete", "a")])
async def test_a_store_asks(tmp_path, call):
    store = GuardedStorage(LocalStorage(tmp_path))
    await store.put("a", b"1")
    name, *arguments = call
    with enter(Policy.PURE) as scope, pytest.raises(EffectDenied):
        await getattr(store, name)(*arguments)
    assert scope.denied[0].seam == "storage.write"
    assert await store.get("a") == b"1"
    await store.delete("a")


async def test_a_local_store_is_not_left_by_a_name(tmp_path):
    with pytest.raises(ValueError, match="leads out"):
        await LocalStorage(tmp_path / "store").put("../a", b"")


async def test_a_provider_asks():
    called = []

    async def complete(prompt: str) -> str:
        called.append(prompt)
        return "answer"

    call = guarded_provider(complete, provider="openai")
    assert await call("1") == "answer"
    with enter(Policy.REPLAY) as scope, pytest.raises(EffectDenied):
        await call("2")
    assert called == ["1"]
    assert scope.denied[0].seam == "provider.call"


async def test_a_webhook_asks():
    posted = []

    async def post(url, body, headers):
        posted.append(url)
        return 204

    notify = guarded_webhook(post)
    assert await notify("http://a/", b"", {}) == 204
    with enter(Policy.REPLAY) as scope, pytest.raises(EffectDenied):
        await notify("http://b/", b"", {})
    assert posted == ["http://a/"]
    assert scope.denied[0].seam == "webhook.post"
