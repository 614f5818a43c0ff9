"""Makes a run of 1,000 events of 256 B through one server, as a process inside its region. Prints its id as JSON. See ``regions``."""

import asyncio
import json
import sys

import isoline_client
from benchmarks.far import EVENT, EVENTS


async def main(asked) -> None:
    async with isoline_client.Client(asked["server"], api_key=asked["key"]) as client:
        run = await client.create_run("bench")
        for _ in range(10):
            await run.append([isoline_client.NewEvent("bench.noted", EVENT) for _ in range(EVENTS // 10)])
        print(json.dumps({"run": run.run_id}))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
