"""The leading region dies under load: its database, its server and its executor, at once. An operator promotes; the region comes back later."""

from isoline_drill.stage import Stage


def region_loss(stage: Stage) -> None:
    """Kill, wait as long as detection takes, promote with the fence, carry on, rejoin by rewind, carry on in three regions."""
    world, lost = stage.world, stage.world.databases.leader
    stage.start_traffic()
    stage.let_pass(stage.dice.uniform(2.0, 4.0))
    stage.fault(f"{lost} killed", lambda: world.kill_region(lost))
    stage.promote()
    stage.measure_failover()
    for region in world.regions:  # also the clients of the lost region, through the other regions' servers
        stage.wait_acknowledged(stage.marks[-1].at_us, region)
    stage.let_pass(stage.dice.uniform(1.0, 3.0))
    world.databases.fence(lost)
    back = world.databases.rejoin(lost)
    stage.mark(f"{lost}'s database follows again ({back.way})")
    world.start_servers(lost)
    stage.mark(f"{lost} serves again")
    stage.let_pass(2.0)
