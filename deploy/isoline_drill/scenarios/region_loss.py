"""The leading region dies under load: its database, its server and its executor, at once. Another region is promoted, by an operator or by
Patroni; the lost one comes back later."""

from isoline_drill.stage import Stage


def region_loss(stage: Stage) -> None:
    """Kill, have another region lead, carry on, rejoin by rewind, carry on in three regions."""
    world, lost = stage.world, stage.world.databases.leader
    stage.start_traffic()
    stage.let_pass(stage.dice.uniform(2.0, 4.0))
    stage.fault(f"{lost} killed", lambda: world.kill_region(lost))
    stage.fail_over()
    stage.measure_failover()
    for region in world.regions:  # also the clients of the lost region, through the other regions' servers
        stage.wait_acknowledged(stage.marks[-1].at_us, region)
    stage.let_pass(stage.dice.uniform(1.0, 3.0))
    back = world.databases.rejoin(lost)
    stage.mark(f"{lost}'s database follows again ({back.way})")
    world.start_servers(lost)
    stage.mark(f"{lost} serves again")
    stage.let_pass(2.0)
