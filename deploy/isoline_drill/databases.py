"""PostgreSQL nodes spread over the regions of a WAN, and the verbs of the operator who looks after them at a failover.

The first region leads at first; the others are hot standbys. A commit is acknowledged once the leader and one standby, whichever, have it
on disk. Rules of a promotion are in ``promotion``, single nodes in ``region_nodes``; load, servers and faults of the network are elsewhere.

The operator stands outside the WAN: it reaches every node that runs, also one that is cut off. What it cannot reach is what was killed.
"""

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from types import TracebackType
from typing import Final, Self

from isoline_drill.failover import Rejoined, Return, Step, TakenOver, Way
from isoline_drill.promotion import PROMOTION_WAIT_S, Moment, Promotion, PromotionRefused, check_excluded, choose
from isoline_drill.region_nodes import RegionNodes
from isoline_drill.wan.base import Wan
from isoline_server.embedded import EmbeddedPostgresError
from isoline_server.embedded.folder import DataFolder
from isoline_server.embedded.installation import prepare
from isoline_server.embedded.leftovers import release_memory
from isoline_server.embedded.psql import QUERY_S
from isoline_server.embedded.replay import CATCH_UP_S, pause_replay, resume_replay, wait_caught_up

FENCE_S: Final = 5.0
"""How long a node may take to stop by itself before it is killed. Nobody waits for its last words."""
FOLLOW_S: Final = 30.0
"""How long a promotion waits for the first standby that follows the new leader."""
PROMOTE_S: Final = 60
"""How long PostgreSQL may take for a promotion: it replays first what it has received."""

_POLL_S: Final = 0.02


class RegionDatabases:
    """One PostgreSQL a region, and an operator (see ``failover.Databases``). Everything is synchronous and may be called from any thread; the
    operator's verbs wait for one another.

    ``folder`` must be new; it is kept, with the logs in it. ``None`` means a temporary one, removed at the end. ``durable=False`` gives
    up surviving a power cut for speed (for tests); a killed process loses nothing either way. ``on_progress`` hears of each step.
    """

    way: Way = "operator"
    ttl_s: int | None = None

    def __init__(
        self,
        wan: Wan,
        folder: Path | None = None,
        *,
        durable: bool = True,
        database: str = "isoline",
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        if not wan.regions:
            raise ValueError("wan: has no regions")
        self.regions = tuple(wan.regions)
        self._wan = wan
        self._path = folder
        self._durable = durable
        self._database = database
        self._on_progress = on_progress
        self._progress_lock = Lock()
        self._verbs = RLock()
        self._folder: DataFolder | None = None
        self._running: RegionNodes | None = None
        self._leader = self.regions[0]
        self._apart: set[str] = set()
        """Regions that took no part in a promotion, and must rejoin before they count again."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- life ---

    def start(self) -> None:
        """Make and start everything. On return every standby streams. On failure nothing is left running."""
        if self._running is not None:
            raise EmbeddedPostgresError("the databases have been started already")
        try:
            nodes = self._prepare()
            nodes.create_leader(self._leader)
            self._each(self._standbys(), lambda region: nodes.follow(region, self._leader))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything, at once: nobody will start it again. Harmless when nothing runs."""
        nodes, self._running = self._running, None
        folder, self._folder = self._folder, None
        with ExitStack() as steps:  # run in reverse order, and a step that fails does not keep the next from running
            if folder is not None:
                steps.callback(folder.close)
            for node in [] if nodes is None else [nodes[region] for region in self.regions]:
                steps.callback(release_memory, node.dir)
                steps.callback(node.process.kill)

    # --- for programs in the regions ---

    @property
    def leader(self) -> str:
        """The region that leads, as far as this operator knows."""
        return self._leader

    def url(self, viewer: str, owner: str, dialect: str = "postgresql+psycopg") -> str:
        """How a program in one region reaches the node of another (or of its own). The same for as long as the databases run."""
        return self._nodes.seen_from(viewer, owner).url(dialect)

    def urls(self, viewer: str, dialect: str = "postgresql+psycopg") -> tuple[str, ...]:
        """How a program in one region reaches every node: its own first, then the others in the WAN's order."""
        own_first = sorted(self.regions, key=lambda region: region != viewer)
        return tuple(self.url(viewer, owner, dialect) for owner in own_first)

    def execute(self, region: str, sql: str, database: str | None = None, *, timeout_s: float = QUERY_S) -> str:
        """Run SQL on a node, from inside its region, and give its output: a row a line, columns separated by ``|``.

        Several statements are one transaction. After a timeout the statement may still run, and its outcome is unknown. A commit whose
        wait for the standbys is cancelled passes for done here, as it does for ``psql``: not for measuring what was acknowledged.
        """
        return self._nodes.execute(region, sql, database, timeout_s=timeout_s)

    def is_running(self, region: str) -> bool:
        return self._nodes[region].process.running

    # --- faults ---

    def kill(self, region: str) -> None:
        """SIGKILL a whole server, as a power cut would end it. It is gone on return."""
        self._nodes[region].process.kill()
        self._report(f"{region}: killed")

    def pause_replay(self, region: str) -> None:
        """Let a standby receive but not show: from now on it answers with the past. A promotion ends that."""
        pause_replay(region, partial(self._nodes.ask, region))

    def resume_replay(self, region: str) -> None:
        """Let a paused standby catch up; it does so in its own time."""
        resume_replay(partial(self._nodes.ask, region))

    def wait_caught_up(self, region: str, timeout_s: float = CATCH_UP_S) -> None:
        """Until a standby shows everything that is committed on the leader at the time of the call."""
        ask = self._nodes.ask
        leader, standby = partial(ask, self._leader), partial(ask, region)
        wait_caught_up(region, primary=leader, standby=standby, timeout_s=timeout_s)

    # --- the operator ---

    def restart(self, region: str) -> None:
        """Start a node again in the part it has; one that still runs is stopped first. Not for one that must rejoin."""
        with self._verbs:
            self._check_takes_part(region)
            self._stop(region)
            if region == self._leader:
                self._nodes.start_leader(region)
            elif self.is_running(self._leader):
                self._nodes.follow(region, self._leader)
            else:
                self._nodes.follow_later(region, self._leader)
            self._report(f"{region}: restarted")

    def fence(self, region: str) -> None:
        """Make sure that a node accepts no more writes, by ending it; with SIGKILL if it does not end soon."""
        with self._verbs:
            self._stop(region)
            self._report(f"{region}: stopped")

    def detach(self, region: str) -> None:
        """Have a standby follow nobody: on return it receives nothing more, and no commit can count on it."""
        with self._verbs:
            self._check_standby(region)
            self._nodes.detach(region)
            self._report(f"{region}: detached")

    def attach(self, region: str) -> None:
        """Have a standby follow the leader again; it does so in its own time."""
        with self._verbs:
            self._check_standby(region)
            self._nodes.attach(region, self._leader)
            self._report(f"{region}: attached to {self._leader}")

    def promote(self, new: str | None = None, *, wait_s: float = PROMOTION_WAIT_S, force: bool = False) -> Promotion:
        """Make a standby the leader, so that nothing acknowledged is lost and the old leader acknowledges nothing more, if it still runs.

        ``new=None`` takes the standby that has received most. First all standbys are detached from the old leader; then ``wait_s`` passes,
        for so long servers may answer from what the old leader proved last. Raises ``PromotionRefused`` when rows could be lost, with
        everything as before. ``force`` accepts that standbys are out of reach, and what that may cost. The old leader is not touched:
        ``fence`` it before ``rejoin``.
        """
        with self._verbs:
            old, standbys = self._leader, self._standbys()
            present = self._present(standbys, new)
            strangers = {region for region in standbys if region in self._apart}
            forced = check_excluded(old, standbys, excluded={*present, *strangers}, force=force)
            try:
                self._each(present, self._nodes.detach)
                detached = Moment.now()
                positions = {region: self._nodes.position(region) for region in present}
                chosen = choose(positions, new)
                self._nodes.renew_slots(chosen)
                followers = [region for region in present if region != chosen]
                self._let_follow(followers, chosen)  # before it leads: their connections are there when it does
            except BaseException:
                self._let_follow(present, old)
                raise
            self._report(f"{chosen}: to be promoted; detached from {old}: {', '.join(present)}")
            time.sleep(max(0.0, detached.monotonic_s + wait_s - time.monotonic()))
            promoted = self._make_leader(chosen, stay=present)
            return Promotion(
                old=old,
                new=chosen,
                positions=positions,
                forced=forced,
                detached=detached,
                promoted=promoted,
                follower_streaming=self._wait_follower(followers),
            )

    def rejoin(self, region: str) -> Rejoined:
        """Bring a region back as a hot standby of the leader, without whatever it has that the leader does not. On return it streams.

        It is stopped first. pg_rewind is tried on what used to lead, a new copy is the last resort.
        """
        with self._verbs:
            self._check_may_rejoin(region)
            if self._streams_already(region):
                return Rejoined(region=region, way="streams already")
            self._stop(region)
            refusal = self._rewind(region) if self._led(region) else None
            copied = self._nodes.follow(region, self._leader)
            self._apart.discard(region)
            way: Return = "copied" if copied else "followed" if refusal is None else "rewound"
            back = Rejoined(region=region, way=way, reason=refusal or copied or "")
            self._report(f"{region}: back ({back.way}{f': {back.reason}' if back.reason else ''})")
            return back

    def fail_over(self, detection_s: float) -> TakenOver:
        """Act as an operator who notices after a while, and promotes the standby that has received most."""
        time.sleep(detection_s)
        acting = Moment.now()
        done = self.promote()
        steps = [
            Step(at=done.detached, what=f"standbys detached from {done.old}"),
            Step(at=done.promoted, what=f"{done.new} promoted"),
        ]
        if (following := done.follower_streaming) is not None:
            steps.append(Step(at=following, what=f"a standby follows {done.new}"))
        return TakenOver(
            old=done.old,
            new=done.new,
            detection_s=detection_s,
            acting=acting,
            promoted=done.promoted,
            follower_streaming=following,
            steps=steps,
        )

    # --- how a promotion goes ---

    def _present(self, standbys: Collection[str], new: str | None) -> list[str]:
        """The standbys that can be detached and promoted."""
        if new == self._leader:
            raise PromotionRefused(f"{new} leads already")
        if new is not None:
            self._check_takes_part(new)
        return [region for region in standbys if region not in self._apart and self._nodes.answers(region)]

    def _make_leader(self, chosen: str, *, stay: Collection[str]) -> Moment:
        done = self._nodes.ask(chosen, f"select pg_promote(true, {PROMOTE_S})", timeout_s=PROMOTE_S + QUERY_S)
        if done != "t":
            raise EmbeddedPostgresError(
                f"{chosen}: was not promoted within {PROMOTE_S} s, and may be later; fence it before anything else"
            )
        promoted = Moment.now()
        self._apart |= set(self.regions) - set(stay)
        self._leader = chosen
        self._report(f"{chosen}: leads")
        return promoted

    def _wait_follower(self, followers: Collection[str]) -> Moment | None:
        # A connection from before the promotion lasts a little longer, but brings nothing that the new leader writes.
        begun = self._nodes.end_of_wal(self._leader)
        deadline = time.monotonic() + FOLLOW_S
        while followers and time.monotonic() < deadline:
            if self._nodes.streaming(self._leader, followers, since=begun):
                streaming = Moment.now()
                self._nodes.ask(self._leader, "checkpoint")
                return streaming
            time.sleep(_POLL_S)
        self._report(f"{self._leader}: no standby follows it yet; commits wait for one")
        return None

    def _let_follow(self, followers: Collection[str], leader: str) -> None:
        for region in followers:
            if self.is_running(region):
                self._nodes.attach(region, leader)

    # --- how a region rejoins ---

    def _led(self, region: str) -> bool:
        """Does its data have a history of its own?"""
        node = self._nodes[region]
        return node.exists and not node.is_standby

    def _streams_already(self, region: str) -> bool:
        takes_part = region not in self._apart and self.is_running(region)
        return takes_part and bool(self._nodes.streaming(self._leader, [region]))

    def _rewind(self, region: str) -> str:
        """Why it was refused; empty when it went well."""
        try:
            self._nodes.rewind(region, self._leader)
        except EmbeddedPostgresError as error:
            return f"pg_rewind: {error}"
        return ""

    # --- how it is put together ---

    def _prepare(self) -> RegionNodes:
        self._folder = folder = DataFolder.open_temporary(None) if self._path is None else DataFolder.open(self._path)
        # Files are made without flushing them, for nothing here is meant to outlive a power cut but what is committed later.
        shared = prepare(folder, owner_of=self._leader, database=self._database, durable=False)
        self._running = nodes = RegionNodes(self._wan, shared, durable=self._durable, report=self._report)
        if any(nodes[region].exists for region in self.regions):
            raise EmbeddedPostgresError(
                f"{folder.path} holds databases already, and who led last is not kept; use a new folder"
            )
        return nodes

    @property
    def _nodes(self) -> RegionNodes:
        if self._running is None:
            raise EmbeddedPostgresError("the databases have not been started")
        return self._running

    def _stop(self, region: str) -> None:
        self._nodes[region].process.stop(within_s=FENCE_S)

    def _standbys(self) -> list[str]:
        return [region for region in self.regions if region != self._leader]

    def _check_takes_part(self, region: str) -> None:
        self._nodes[region]  # raises for a region that there is not
        if region in self._apart:
            raise EmbeddedPostgresError(f"{region} took no part in the last promotion; it must rejoin first")

    def _check_standby(self, region: str) -> None:
        self._check_takes_part(region)
        if region == self._leader:
            raise EmbeddedPostgresError(f"{region} leads; it follows nobody")

    def _check_may_rejoin(self, region: str) -> None:
        if region == self._leader:
            raise EmbeddedPostgresError(f"{region} leads; there is nobody for it to follow")
        if not self.is_running(self._leader):
            raise EmbeddedPostgresError(f"{self._leader} leads and does not run; restart it, or promote another")

    @staticmethod
    def _each(regions: Collection[str], do: Callable[[str], object]) -> None:
        """For all at once; raises the first error when all are done."""
        if regions:
            with ThreadPoolExecutor(len(regions)) as pool:
                for done in [pool.submit(do, region) for region in regions]:
                    done.result()

    def _report(self, text: str) -> None:
        if self._on_progress is not None:
            with self._progress_lock:
                self._on_progress(text)
