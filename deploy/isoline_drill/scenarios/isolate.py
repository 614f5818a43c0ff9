"""A region is cut off and lives on. First the leading one, with a promotion behind its back; then, after it has rejoined, another.

The cut-off leader may acknowledge nothing that the others will not have, and must not say of its own rows that they are the newest. The
cut-off follower still reads, and says how old its answers may be.
"""

from isoline_drill.stage import Stage, acknowledged_between, staleness_of

HOLD_S = 6.0
"""How long a region stays cut off: longer than servers wait for a leader, and than a proof of leadership holds."""
SETTLE_US = 2_000_000
"""What was under way at the cut may still be answered; what begins this much later cannot."""


def isolate(stage: Stage) -> None:
    """Cut off the leader, promote, heal, fence, rejoin; then cut off a follower, and heal."""
    _leader_cut_off(stage)
    _follower_cut_off(stage)


def _leader_cut_off(stage: Stage) -> None:
    world, cut = stage.world, stage.world.databases.leader
    stage.start_traffic()
    stage.let_pass(stage.dice.uniform(2.0, 3.0))
    cut_us = stage.fault(f"{cut} cut off, and alive", lambda: world.wan.isolate(cut))
    stage.fail_over()
    stage.measure_failover()
    stage.let_pass(HOLD_S)
    healed_us = stage.mark(f"{cut} reachable again")
    acknowledged = acknowledged_between(stage.operations(cut), cut_us + SETTLE_US, healed_us)
    stage.check(not acknowledged, f"{cut} acknowledged {len(acknowledged)} appends while it was cut off")
    stage.staleness = [staleness_of(cut, stage.operations(cut), cut_us, healed_us)]
    world.wan.heal()
    stage.wait_acknowledged(
        healed_us, cut
    )  # its server has found the new leader, though the old one is nearer and still up
    stage.mark(f"clients of {cut} are acknowledged again")
    back = world.databases.rejoin(cut)
    stage.mark(f"{cut}'s database follows again ({back.way})")
    stage.let_pass(2.0)


def _follower_cut_off(stage: Stage) -> None:
    world = stage.world
    cut = stage.dice.choice([region for region in world.regions if region != world.databases.leader])
    cut_us = stage.mark(f"{cut} cut off, and alive")
    world.wan.isolate(cut)
    stage.let_pass(HOLD_S)
    healed_us = stage.mark(f"{cut} reachable again")
    told = staleness_of(cut, stage.operations(cut), cut_us, healed_us)
    stage.staleness = [*stage.staleness, told]
    acknowledged = acknowledged_between(stage.operations(cut), cut_us + SETTLE_US, healed_us)
    stage.check(not acknowledged, f"{cut} acknowledged {len(acknowledged)} appends while it was cut off")
    stage.check(told.stale_reads > 0, f"{cut} served no read while it was cut off")
    stage.check(told.untold == 0, f"{told.untold} stale reads in {cut} did not say how old they may be")
    oldest_s = (told.oldest_ms or 0) / 1000
    stage.check(
        oldest_s > 1.0,
        f"reads in {cut} said that they were at most {oldest_s:.1f} s old, after {HOLD_S:.0f} s without a leader",
    )
    world.wan.heal()
    stage.wait_acknowledged(healed_us, cut)
    stage.mark(f"clients of {cut} are acknowledged again")
    stage.let_pass(1.0)
