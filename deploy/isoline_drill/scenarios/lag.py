"""A standby receives and does not show: its region reads an ever older past. Then the leader is cut off from it as well."""

from isoline_drill.history import Look
from isoline_drill.stage import Stage

HOLD_S = 8.0
CUT_S = 3.0


def lag(stage: Stage) -> None:
    """Pause the replay of a follower, cut it off from everybody, heal, resume."""
    world = stage.world
    behind = stage.dice.choice([region for region in world.regions if region != world.databases.leader])
    stage.start_traffic()
    stage.let_pass(2.0)
    paused_us = stage.fault(f"{behind} shows nothing new", lambda: world.databases.pause_replay(behind))
    stage.let_pass(HOLD_S)
    cut_us = stage.mark(f"{behind} cut off as well")
    helped = [
        each
        for each in stage.operations(behind)
        if isinstance(each, Look) and paused_us < each.invoked_us and each.source == "leader"
    ]
    stage.check(bool(helped), f"no read in {behind} was served by the leader while its own replica lagged")
    world.wan.isolate(behind)
    stage.let_pass(CUT_S)
    told = stage.head_told(behind)
    stage.staleness = [told]
    healed_us = stage.mark(f"{behind} reachable again")
    stage.check(told.stale_reads == 1, f"{behind} did not say that what it shows may be old")
    oldest_s = (told.oldest_ms or 0) / 1000
    behind_s = (cut_us - paused_us) / 1e6 + CUT_S
    stage.check(
        oldest_s >= behind_s,
        f"{behind} said that what it shows is at most {oldest_s:.1f} s old, {behind_s:.1f} s behind",
    )
    world.wan.heal()
    world.databases.resume_replay(behind)
    stage.mark(f"{behind} catches up")
    stage.wait_acknowledged(healed_us, behind)
    stage.let_pass(1.0)
