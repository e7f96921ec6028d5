"""One scenario: a worker's process, the owners that it dials, and the tool that it calls."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.serde.link.messages import Refused
from streams.serde.records import Lease
from support.link_suite.leases import lease
from support.link_suite.owner import ScriptedOwner, Terms
from support.link_suite.said import Said, Told, come
from support.link_suite.tool import Tool
from support.link_suite.workers import WorkerUnderTest

TOKEN = "the-token-of-the-suite"
SLOTS = 4


@dataclass
class Play:
    """What a scenario works with; the first of the owners is `owner`."""

    process: asyncio.subprocess.Process
    owners: list[ScriptedOwner]
    said: Said
    tool: Tool
    terms: Terms

    @property
    def owner(self) -> ScriptedOwner:
        return self.owners[0]

    async def run(self, type_: str, value: Any = None, **more: Any) -> Lease:
        """Hand out the first run of a new job."""
        made = lease(type_, value, term=self.terms.term, **more)
        await self.owner.lease(made)
        return made

    async def listed(self, leased: Lease) -> None:
        """Return once a heartbeat has named a run."""

        def named() -> bool:
            told = [held for each in self.said.all("heartbeat") for held in each.body.leases]
            return (leased.job_id, leased.epoch) in [(held.job_id, held.epoch) for held in told]

        await come(named, f"a heartbeat that lists {leased.job_id}")

    async def granted(self, leased: Lease, key: str, **fields: Any) -> Told:
        """Grant the next claim of a run."""
        claim = await self.said.next("claim", leased.job_id)
        await self.owner.answer(claim, "granted", idempotency_key=key, **fields)
        return claim

    async def ended(self, leased: Lease) -> Any:
        """The end that the worker reports of a run."""
        told = await self.said.next("ended", leased.job_id)
        assert (told.epoch, told.body.run_id) == (leased.epoch, leased.run_id)
        return told.body

    async def exit_code(self, seconds: float = 30.0) -> int:
        """How the process ended."""
        return await asyncio.wait_for(self.process.wait(), seconds)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)


@asynccontextmanager
async def playing(
    worker: WorkerUnderTest,
    folder: Path,
    owned: Sequence[Sequence[int]] = ((0, 1, 2, 3),),
    terms: Terms = Terms(),  # noqa: B008 - frozen
    refusal: Refused | None = None,
) -> AsyncIterator[Play]:
    """Play to a new process of the worker; what it said wrong fails the scenario."""
    said, tool = Said(), Tool()
    owners = [ScriptedOwner(said, f"owner-{n}", o, terms, refusal) for n, o in enumerate(owned)]
    await tool.open()
    for each in owners:
        await each.open()
    environ = {
        **os.environ,
        **worker.environ,
        "TIDEGATE_LINK": ",".join(each.address for each in owners),
        "TIDEGATE_LINK_TOKEN": TOKEN,
        "TIDEGATE_INSTANCE": "suite",
        "TIDEGATE_SLOTS": str(SLOTS),
        "TOOL_URL": tool.url,
    }
    output = folder / "worker.log"
    with output.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *worker.command, cwd=worker.folder, env=environ, stdout=log, stderr=log
        )
    try:
        yield Play(process, owners, said, tool, terms)
        assert not said.faults, said.faults
    except BaseException:
        print(output.read_text()[-4000:])
        raise
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        for each in owners:
            await each.close()
        await tool.close()
