"""A kill counts only if it struck work in flight; what it interrupted is then watched."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from streams.delivery.message.signing import headers
from streams.demo.run.faults import Faults
from streams.demo.verdict.topic_recorder import Records, Seen
from streams.demo.world.receiver import Receiver
from streams.demo.world.recorder import Recorder
from streams.demo.world.scenario import LEAST_EVENTS, TENANTS, compose
from streams.demo.world.subscribers import STRUCK_ENDPOINT
from streams.demo.world.tools import Caller, Tools
from streams.dev.layout import Member
from streams.process.wall_clock import wall_ms
from streams.serde.records import Schedule

NOW = 1_000.0
DUE_SOON = Schedule("t", TENANTS[0], int((NOW + 0.4) * 1000), "jobs.commands", b"", b"w")


@dataclass
class Processes:
    """A pipeline whose members are idle processes."""

    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def members(self) -> list[Member]:
        return [Member(stage, number, 1) for stage, number in (n.split("-") for n in self.running)]

    def pid(self, name: str) -> int | None:
        return self.running[name].pid

    def start(self, name: str) -> None:
        self.running[name] = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
        )

    def killed(self, name: str) -> bool:
        return self.running[name].wait(timeout=5) == -9


@dataclass
class Topics:
    """What a tape would have read."""

    read: dict[str, list[Seen[Any]]] = field(default_factory=dict)
    records: Records = field(default_factory=Records)
    newest: dict[str, Any] = field(default_factory=dict)
    commanded: dict[bytes, float] = field(default_factory=dict)

    def of(self, topic: str) -> list[Seen[Any]]:
        return self.read.get(topic, [])

    def next_record(self, wanted: Any) -> asyncio.Future[Seen[Any]]:
        future: asyncio.Future[Seen[Any]] = asyncio.get_running_loop().create_future()
        future.set_result(next(s for seen in self.read.values() for s in seen if wanted(s)))
        return future

    rows: dict[tuple[str, str, str], Any] = field(default_factory=dict)

    async def to_end(self) -> None:
        """All is read."""


@dataclass
class Offsets:
    """What the consumer groups say."""

    committed_now: dict[tuple[str, int], int]

    def owners(self, stage: str) -> dict[int, str]:
        return {0: f"{stage}-0", 1: f"{stage}-1"}

    def committed(self, stage: str) -> dict[tuple[str, int], int]:
        return self.committed_now


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    for process in started.running.values():
        process.kill()
        process.communicate()


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faults' clock stands at `NOW`: `DUE_SOON` stays due soon, however slow the machine."""
    monkeypatch.setattr("streams.demo.run.owner_faults.time", SimpleNamespace(time=lambda: NOW))


def faults(processes: Processes, topics: Topics, **parts: Any) -> Faults:
    return Faults(
        processes,  # type: ignore[arg-type]
        parts.get("vendor"),  # type: ignore[arg-type]
        parts.get("recorder"),  # type: ignore[arg-type]
        topics,  # type: ignore[arg-type]
        parts.get("groups"),  # type: ignore[arg-type]
        parts.get("receiver"),  # type: ignore[arg-type]
    )


def event(partition: int, offset: int, read_at: float = 0.0) -> Seen[Any]:
    return Seen("events.received", partition, offset, 0.0, b"", None, read_at)


async def test_the_owner_of_uncommitted_records_is_struck(processes: Processes) -> None:
    for name in ("dedup-0", "dedup-1"):
        processes.start(name)
    topics = Topics({"events.received": [event(1, 4), event(1, 5)]})
    groups = Offsets({("events.received", 1): 5})
    striking = faults(processes, topics, groups=groups)
    assert await striking.stage("dedup")
    assert processes.killed("dedup-1")
    assert processes.running["dedup-0"].poll() is None
    groups.committed_now = {("events.received", 1): 6}
    (kill,) = await striking.recovered()
    assert (kill.process, kill.in_flight) == ("dedup-1", "1 record for dedup")
    assert kill.recovered_after is not None


async def test_fused_stages_are_struck_where_they_run(processes: Processes) -> None:
    processes.start("pipeline-1")
    taken = Seen("events", 1, 7, 0.0, b"", None, taken=True)
    command = Seen("jobs.commands", 1, 3, 0.0, b"", None)
    topics = Topics({"events": [taken], "jobs.commands": [command]})
    groups = Offsets({})
    striking = faults(processes, topics, groups=groups)
    assert await striking.stage("dispatcher")
    assert processes.killed("pipeline-1")
    groups.committed_now = {("jobs.commands", 1): 4}
    (kill,) = await striking.recovered()
    assert (kill.stage, kill.process) == ("dispatcher", "pipeline-1")
    assert kill.in_flight == "1 record for dispatcher", "what was handed over is done"
    assert kill.recovered_after is not None


async def test_a_kill_of_an_idle_process_does_not_count(processes: Processes) -> None:
    processes.start("dedup-1")
    topics = Topics({"events.received": [event(1, 5)]})
    striking = faults(processes, topics, groups=Offsets({("events.received", 1): 6}))
    assert not await striking.stage("dedup")
    assert striking.kills == []


async def test_records_that_came_after_the_kill_were_not_in_flight(processes: Processes) -> None:
    processes.start("dedup-1")
    topics = Topics({"events.received": [event(1, 5, read_at=time.time() + 60)]})
    striking = faults(processes, topics, groups=Offsets({}))
    assert not await striking.stage("dedup")


async def test_a_worker_is_struck_in_the_middle_of_its_call(processes: Processes) -> None:
    processes.start("worker-0")
    recorder = Recorder()
    url = await recorder.start()
    caller = Caller("acme", "job_1", "run_1", 1, processes.pid("worker-0") or 0)
    job: Any = SimpleNamespace(job_id="job_1", run_id="run_1", epoch=1, status="running")
    topics = Topics(records=Records(jobs=[Seen("jobs", 0, 0, 0.0, b"", job)]))

    async def send() -> None:
        async with Tools(caller, url) as tools:
            await tools.send_email(ticket="1", to="x", text="y", idempotency_key="k")

    striking = faults(processes, topics, recorder=recorder)
    strike = asyncio.create_task(striking.worker("email:send"))
    await asyncio.sleep(0)
    await asyncio.gather(send(), strike)
    assert strike.result()
    assert processes.killed("worker-0")
    topics.newest["job_1"] = SimpleNamespace(epoch=1, status="pending")
    (kill,) = await striking.recovered()
    assert (kill.job_id, kill.epoch) == ("job_1", 1)
    assert kill.recovered_after is not None
    assert recorder.calls[0].answered_at is None
    await recorder.stop()


async def strike_an_attempt(processes: Processes, status: str) -> tuple[Faults, Topics]:
    """Have the delivery stage struck while the receiver holds a message whose row is `status`."""
    processes.start("delivery-0")
    scenario = compose(LEAST_EVENTS, 1, seed=1)
    receiver = Receiver(scenario.subscribers)
    await receiver.start()
    topics = Topics()
    row: Any = SimpleNamespace(message_id="evt_1", status=status)
    topics.rows[*STRUCK_ENDPOINT, "evt_1"] = row
    topics.records.deliveries.append(Seen("deliveries", 0, 0, 0.0, b"", row))
    striking = faults(processes, topics, groups=Offsets({}), receiver=receiver)
    strike = asyncio.create_task(striking.delivery())
    await asyncio.sleep(0)
    async with aiohttp.ClientSession() as session:
        to = next(s for s in scenario.subscribers if s.place == STRUCK_ENDPOINT)
        signed = headers("evt_1", wall_ms(), b"{}", [to.secret.encode()])
        await session.post(receiver.url(to.place), data=b"{}", headers=signed)
    assert await strike == (status == "pending")
    await receiver.stop()
    return striking, topics


async def test_the_delivery_stage_is_struck_in_the_middle_of_an_attempt(
    processes: Processes,
) -> None:
    striking, topics = await strike_an_attempt(processes, "pending")
    assert processes.killed("delivery-0")
    topics.rows[*STRUCK_ENDPOINT, "evt_1"] = SimpleNamespace(status="delivered")
    (kill,) = await striking.recovered()
    assert (kill.stage, kill.in_flight) == ("delivery", "an attempt for acme/everything")
    assert kill.recovered_after is not None


async def test_an_attempt_whose_row_is_settled_already_does_not_count(
    processes: Processes,
) -> None:
    striking, _ = await strike_an_attempt(processes, "delivered")
    assert striking.kills == []


@pytest.mark.usefixtures("still")
async def test_the_scheduler_is_struck_with_a_timer_pending(processes: Processes) -> None:
    processes.start("scheduler-0")
    topics = Topics(records=Records(schedule=[Seen("schedule", 0, 0, 0.0, b"", DUE_SOON)]))
    striking = faults(processes, topics, groups=Offsets({}))
    assert await striking.scheduler()
    assert processes.killed("scheduler-0")
    topics.commanded[b"w"] = NOW
    (kill,) = await striking.recovered()
    assert kill.recovered_after is not None


@pytest.mark.usefixtures("still")
async def test_a_scheduler_whose_timer_had_fired_already_does_not_count(
    processes: Processes,
) -> None:
    processes.start("scheduler-0")
    topics = Topics(records=Records(schedule=[Seen("schedule", 0, 0, 0.0, b"", DUE_SOON)]))

    async def fires_meanwhile() -> None:
        topics.commanded[b"w"] = 0.0

    topics.to_end = fires_meanwhile  # type: ignore[method-assign]
    striking = faults(processes, topics, groups=Offsets({}))
    assert not await striking.scheduler()
    assert striking.kills == []


async def test_an_ingress_is_struck_when_the_connections_it_held_break(
    processes: Processes,
) -> None:
    processes.start("ingress-0")
    url = "http://127.0.0.1:1"

    @dataclass
    class Busy:
        under_way: dict[str, int] = field(default_factory=lambda: {url: 2})
        broken: list[Any] = field(default_factory=list)

        async def knock(self, ingress: str, tenant_id: str) -> int:
            return 400

    vendor = Busy()
    vendor.broken = [SimpleNamespace(ingress=url, sent_at=time.time())]
    striking = faults(processes, Topics(), vendor=vendor)
    strike = asyncio.create_task(striking.ingress())
    assert await asyncio.to_thread(processes.killed, "ingress-0")
    vendor.under_way[url] = 0
    assert await strike
    (kill,) = await striking.recovered()
    assert kill.in_flight == "1 request"
