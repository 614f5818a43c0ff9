"""``python -m isoline_drill.load``: works until SIGTERM, SIGINT or its stop file, then ends in order."""

import asyncio
import signal
import sys

from isoline_client import IsolineError
from isoline_drill.load.driver import Load, say
from isoline_drill.load.settings import Settings, parse


async def _main(settings: Settings) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await Load(settings, stop).work()
    except (IsolineError, FileExistsError) as error:
        say({"load": "failed", "region": settings.region, "why": f"{type(error).__name__}: {error}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(parse())))
