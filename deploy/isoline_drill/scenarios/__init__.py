"""The drills: one a module, each a function of the stage that does something to the world and lets the load go on. They judge nothing but what
the checker of histories cannot know."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from isoline_drill.scenarios.executor_loss import executor_loss
from isoline_drill.scenarios.isolate import isolate
from isoline_drill.scenarios.lag import lag
from isoline_drill.scenarios.region_loss import region_loss
from isoline_drill.scenarios.rolling_restart import rolling_restart
from isoline_drill.stage import Stage

SCENARIOS: Final[Mapping[str, Callable[[Stage], None]]] = MappingProxyType(
    {
        "region-loss": region_loss,
        "isolate": isolate,
        "lag": lag,
        "executor-loss": executor_loss,
        "rolling-restart": rolling_restart,
    }
)
