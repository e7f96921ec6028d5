"""The real dispatcher behind the real server of a link: on memory, but with a worker's process."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from streams import dispatcher, scheduler
from streams.link.grant import Grant
from streams.link.listening import Listening
from streams.link.owner import Owner
from streams.link.server import LinkServer
from streams.link.terms import Terms
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.link import Link, Workers
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job
from streams.topology.model import Events, JobType
from support.dispatching import Desk, topology
from support.link_services import InMemory, Tokens
from support.link_suite.play import TOKEN
from support.link_suite.said import come
from support.link_suite.tool import Tool
from support.link_suite.workers import WorkerUnderTest

_TURN_SECONDS = 0.01


class RealOwner(Desk):
    """A desk whose driver serves its link; its virtual clock follows the machine's."""

    def __init__(self) -> None:
        kept = (Events("*", "ticket.*"),)
        types = {"wait_event": JobType("wait_event", waits_for=kept)}
        self.topology = replace(topology(), job_types=types)
        self.tool = Tool()
        self._server: LinkServer | None = None
        stages = [dispatcher.stage(self.topology), scheduler.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology, 1, open_link=self._open)
        self.driver.advance(0.2)

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.port

    def _open(self, workers: Workers) -> Link:
        def monotonic() -> float:
            return self.driver._clock.monotonic()

        pools, leases = frozenset(self.topology.pools), self.topology.leases
        owner = Owner(workers, Terms("dispatcher-0", 1, pools, leases), monotonic)
        services = InMemory(Tokens(**{TOKEN: Grant("", "suite")}))
        if self._server is None:
            self._server = LinkServer(owner, lambda _: services, Listening("127.0.0.1", 0))
            self._server.start(_raise)
        return owner

    async def run(self) -> None:
        """Let the driver go on with the time."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            now = time.monotonic()
            self.driver.advance(now - before)
            before = now
            with self.driver.together():
                pass

    async def ended(self, job_id: str) -> Job:
        """A job once it has ended."""

        def look() -> Job | None:
            job = self.job(job_id)
            return job if job.status in TERMINAL else None

        return await come(look, f"the end of {job_id}")

    async def waits(self, job_id: str) -> Job:
        """A job once it waits."""

        def look() -> Job | None:
            job = self.job(job_id)
            return job if job.status == "waiting" else None

        return await come(look, f"{job_id} waits")

    def ask(self, job_id: str, type_: str, value: Any) -> None:
        """Submit a job."""
        self.submit(job_id, type_, input=json.dumps(value))

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()


def _raise(error: Exception) -> None:
    raise error


@asynccontextmanager
async def served(worker: WorkerUnderTest, folder: Path) -> AsyncIterator[RealOwner]:
    """The owner, with a process of the worker."""
    owner = RealOwner()
    await owner.tool.open()
    running = asyncio.create_task(owner.run())
    environ = {
        **os.environ,
        **worker.environ,
        "TIDEGATE_LINK": f"ws://127.0.0.1:{owner.port}",
        "TIDEGATE_LINK_TOKEN": TOKEN,
        "TIDEGATE_INSTANCE": "suite",
        "TIDEGATE_SLOTS": "4",
        "TOOL_URL": owner.tool.url,
    }
    output = folder / "worker.log"
    with output.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *worker.command, cwd=worker.folder, env=environ, stdout=log, stderr=log
        )
    try:
        yield owner
    except BaseException:
        print(output.read_text()[-4000:])
        raise
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        running.cancel()
        owner.close()
        await owner.tool.close()
