"""A real worker's process, opposite an owner of partitions that the test plays over the link."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.link_suite.leases import lease
from support.link_suite.owner import Session
from support.link_suite.play import TOKEN, Play, playing
from support.link_suite.said import come
from support.link_suite.workers import WorkerUnderTest

from streams.serde.link.messages import Leased, Refused
from streams.serde.records import Lease

pytestmark = pytest.mark.long

APP = """
import asyncio, multiprocessing, time
from streams import App, Context
app = App("test")

@app.job("waits")
async def waits(ctx: Context):
    await asyncio.Event().wait()

@app.job("forks")
async def forks(ctx: Context):
    with multiprocessing.Pool(2) as pool:
        squares = pool.map(abs, [-1, -2])
    child = multiprocessing.Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join()
    return [squares, child.exitcode]

@app.job("blocks")
async def blocks(ctx: Context):
    while True:
        time.sleep(0.1)
"""
TOPOLOGY = "pools: [{name: slow}]\n"
COMMAND = (str(Path(sys.executable).with_name("tidegate")), "worker", "--app", "jobs:app")
REPLACED = Refused("replaced", "another process runs under this instance name")


@pytest.fixture
def worker(tmp_path: Path) -> WorkerUnderTest:
    """The command `tidegate worker` with the application of this page."""
    (tmp_path / "jobs.py").write_text(APP)
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    (tmp_path / "forbidden").write_text("")
    flags = ("--topology", "topology.yaml", "--probe-port", "0")
    # Whatever would be read or dialed here fails: a worker has no use for it.
    without = {
        "TIDEGATE_BOOTSTRAP": "127.0.0.1:1",
        "TIDEGATE_DATA_DIR": str(tmp_path / "forbidden" / "data"),
    }
    return WorkerUnderTest("worker", (*COMMAND, *flags), tmp_path, environ=without)


@pytest.fixture
async def play(worker: WorkerUnderTest, tmp_path: Path) -> AsyncIterator[Play]:
    async with playing(worker, tmp_path) as found:
        await found.owner.connected()
        yield found


def with_two_pools(worker: WorkerUnderTest) -> WorkerUnderTest:
    """The same with three slots for the default pool, and one for the pool `slow`."""
    words = (*worker.command, "--slots", "3", "--pool", "default", "--pool", "slow=1")
    return WorkerUnderTest(worker.name, words, worker.folder, environ=worker.environ)


def log_of(worker: WorkerUnderTest) -> str:
    """What the process has said so far, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", (worker.folder / "worker.log").read_text())


async def leased(play: Play, session: Session, type_: str = "waits") -> Lease:
    """Hand out a job to one of the process's workers; return once its run is listed."""
    made = lease(type_, term=play.terms.term)
    await play.owner.lease(made, to=session)
    await play.listed(made)
    return made


async def test_it_needs_no_kafka_and_no_keys(play: Play, worker: WorkerUnderTest) -> None:
    """Brokers that nobody can reach and a folder that nobody can make are in its environment."""
    session = await play.owner.connected()
    assert session.authorization == f"Bearer {TOKEN}"
    run = await play.run("forks")
    assert (await play.ended(run)).status == "succeeded"
    play.terminate()
    assert await play.exit_code() == 0
    assert "kafka" not in log_of(worker).lower()


async def test_one_process_runs_the_jobs_of_two_pools_and_drains_both(
    worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(with_two_pools(worker), tmp_path) as play:
        both = [await play.owner.connected_for(pool) for pool in ("default", "slow")]
        assert [each.hello.slots for each in both if each.hello] == [3, 1]
        runs = [await leased(play, each) for each in both]
        slow = both[1]
        assert slow.beat is not None
        beyond = lease("waits", term=play.terms.term)
        await play.owner.send(Leased(0, slow.beat.number, beyond), to=slow)
        assert await play.said.next("declined", beyond.job_id)
        play.terminate()
        for run in runs:
            assert (await play.ended(run)).status == "released"
        assert await play.exit_code() == 0


async def test_a_process_ends_when_the_worker_of_one_of_its_pools_is_replaced(
    worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(with_two_pools(worker), tmp_path) as play:
        default, slow = [await play.owner.connected_for(pool) for pool in ("default", "slow")]
        run = await leased(play, default)
        await play.owner.send(REPLACED, to=slow)
        assert (await play.ended(run)).status == "released"
        assert await play.exit_code() == 1
    assert REPLACED.message in log_of(worker)


async def test_children_that_a_handler_ends_leave_its_worker_alone(play: Play) -> None:
    """SIGTERM to a forked child reached the worker, which released all its runs and ended."""
    beside = await leased(play, await play.owner.connected())
    ended = await play.ended(await play.run("forks"))
    assert (ended.status, json.loads(ended.result)) == ("succeeded", [[1, 2], -signal.SIGTERM])
    assert play.process.returncode is None
    play.terminate()
    assert (await play.ended(beside)).status == "released"


async def test_a_restarted_worker_has_a_later_boot_under_its_name(
    worker: WorkerUnderTest, tmp_path: Path
) -> None:
    """So its owners end the leases of the boot before at once."""
    boots = []
    for _ in range(2):
        async with playing(worker, tmp_path) as play:
            session = await play.owner.connected()
            await leased(play, session)
            assert session.hello is not None
            boots.append((session.hello.name, session.hello.boot))
            play.process.kill()
    (before, first), (after, second) = boots
    assert before == after
    assert first < second


async def test_a_blocked_loop_is_named_and_ends_the_process(
    play: Play, worker: WorkerUnderTest
) -> None:
    """It keeps its lease meanwhile, and offers no slot."""
    session = await play.owner.connected()
    run = await play.run("blocks", timeout=1.0)
    await play.listed(run)
    await come(lambda: session.beat and session.beat.limit == session.sent, "no slot is offered")
    before = len(play.said.all("heartbeat"))
    listed = await come(lambda: play.said.all("heartbeat")[before:], "a later heartbeat")
    assert [held.job_id for held in listed[0].body.leases] == [run.job_id]
    assert await play.exit_code(60) == 70
    text = log_of(worker)
    assert text.count("a handler blocks the event loop") == 1
    assert "time.sleep(0.1)" in text
    assert run.job_id in text
    assert "blocked past its handler's timeout" in text
