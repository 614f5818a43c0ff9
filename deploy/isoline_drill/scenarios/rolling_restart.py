"""Every server is restarted, one region after the other, as a new version is rolled out: drained by SIGTERM, started again, next."""

from isoline_drill.history import Operation
from isoline_drill.stage import Stage
from isoline_drill.timeline import REFUSALS


def rolling_restart(stage: Stage) -> None:
    """Drain and restart each server and its executor. Clients go on elsewhere meanwhile, so nobody may see an error."""
    world = stage.world
    stage.start_traffic()
    stage.let_pass(1.0)
    began_us = stage.mark("restarts begin")
    for region in world.regions:
        drained = [program.stop() for program in (world.executors[region], world.servers[region])]
        stage.check(all(drained), f"a server or executor in {region} had to be killed")
        stage.mark(f"{region} drained")
        world.start_servers(region)
        stage.mark(f"{region} serves again")
        stage.let_pass(1.0)
    unserved = [each for region in world.regions for each in stage.operations(region) if _unserved(each, began_us)]
    stage.check(
        not unserved, f"{len(unserved)} operations failed or have an unknown outcome; the first: {unserved[:1]}"
    )


def _unserved(operation: Operation, since_us: int) -> bool:
    refused = operation.outcome == "failed" and operation.error.startswith(REFUSALS)
    begun = operation.invoked_us >= since_us and operation.completed_us is not None
    return begun and operation.outcome != "ok" and not refused
