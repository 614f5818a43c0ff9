"""Executors die in the middle of effects, again and again. Another takes their runs over when the leases end; no effect leaves twice."""

from typing import Final

from isoline_drill.stage import Stage

TIMES: Final = 4
LEASE_S: Final = 3.0


def executor_loss(stage: Stage) -> None:
    """Kill the executor of a region, any moment; start another after a while."""
    world = stage.world
    stage.start_traffic()
    for _ in range(TIMES):
        stage.let_pass(stage.dice.uniform(1.0, 2.0))
        region = stage.dice.choice(world.regions)
        executor = world.executors[region]
        stage.fault(f"{region}'s executor killed", executor.kill)
        stage.let_pass(stage.dice.uniform(0.2, 1.5))
        executor.launch()
        executor.wait_ready()
        stage.mark(f"{region} has another executor")
    stage.let_pass(LEASE_S)
