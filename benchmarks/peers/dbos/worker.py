"""The worker of DBOS: asynchronous workflows on uvloop, taken from two queues.

A workflow that waits counts as running. So jobs that wait stand in a queue without a limit, and
leave the slots of the other queue to jobs that work.

A step whose end is not recorded when the worker is killed runs again: so effects are doubled.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import uvloop
from dbos import DBOS, DBOSConfig, SetWorkflowID

from peers import journal
from peers.journal import note

JOBS, WAITS = "jobs", "waits"
ANSWERED = "answered"
"""The topic of the message that wakes a job."""
_FOREVER_SECONDS = 7 * 86_400.0

_settings = {
    name: os.environ[f"PEERS_DBOS_{name}"]
    for name in ("SLOTS", "POLL", "THREADS", "POOL", "RESULT_POLL")
}
config: DBOSConfig = {
    "name": "peers",
    "system_database_url": os.environ["PEERS_POSTGRES"],
    "sys_db_pool_size": int(_settings["POOL"]),
    "max_executor_threads": int(_settings["THREADS"]),
    "log_level": "WARNING",
    "run_migrations": False,
    # A worker recovers at its start what it left under this id and version.
    "executor_id": os.environ["PEERS_DBOS_EXECUTOR"],
    "application_version": "1",
}
DBOS(config=config)


async def _effect_once(event_id: str) -> str:
    return await journal.effect(event_id)


async def _plain(event_id: str, body: str) -> None:
    note("start", event_id)
    note("end", event_id)


async def _effect(event_id: str, body: str) -> None:
    note("start", event_id)
    await effect_once(event_id)
    note("end", event_id)


async def _wait(event_id: str, body: str) -> None:
    note("start", event_id)
    await DBOS.recv_async(ANSWERED, timeout_seconds=_FOREVER_SECONDS)
    note("woke", event_id)
    note("end", event_id)


async def _fan(event_id: str, body: str, jobs: int) -> None:
    note("start", event_id)
    # All at once start faster than one after the other. Results are read in order, as each one that
    # is waited for is polled.
    children = await asyncio.gather(*(_child(f"{event_id}/{number}") for number in range(jobs)))
    for each in children:
        await each.get_result(polling_interval_sec=float(_settings["RESULT_POLL"]))
    note("end", event_id)


async def _child(event_id: str) -> Any:
    with SetWorkflowID(event_id):
        return await DBOS.enqueue_workflow_async(JOBS, plain, event_id, "")


effect_once: Any = DBOS.step(name="effect")(_effect_once)
plain: Any = DBOS.workflow(name="plain")(_plain)
effect: Any = DBOS.workflow(name="effect")(_effect)
wait: Any = DBOS.workflow(name="wait")(_wait)
fan: Any = DBOS.workflow(name="fan")(_fan)


async def launch() -> None:
    """Run what this executor left, and what comes."""
    DBOS.launch()
    poll, slots = float(_settings["POLL"]), int(_settings["SLOTS"]) or None
    await DBOS.register_queue_async(JOBS, worker_concurrency=slots, polling_interval_sec=poll)
    await DBOS.register_queue_async(WAITS, polling_interval_sec=poll)


async def main() -> None:
    await launch()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
