"""A worker's link dials the server of an owner; only the stage and the handlers are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
from support.link_services import InMemory, serving
from support.linked_worker import HANDLERS, LinkedWorker
from support.linked_workers import NOW, Partitions, boot, to

from streams.link.server import LinkServer
from streams.runtime.processor import Record
from streams.serde.link.messages import Order, Wanted
from streams.worker.link.addresses import addresses
from streams.worker.link.dialer import Dialer


class Stage:
    """Commits what comes, in its own time; `claims` are the claims that it has committed."""

    def __init__(self, partitions: Partitions) -> None:
        self.partitions = partitions
        self.claims: list[str] = []

    def take(self) -> list[Record]:
        return self.partitions.owner.take(NOW)

    def commit(self, records: list[Record]) -> None:
        self.partitions.commit(records)
        orders = [msgspec.json.decode(record.value or b"", type=Order) for record in records]
        claims = [msgspec.json.decode(o.body)["claim_id"] for o in orders if o.kind == "claim"]
        self.claims += claims

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_so():
                self.commit(self.take())
                await asyncio.sleep(0.005)


@asynccontextmanager
async def dialing(server: LinkServer, worker: LinkedWorker) -> AsyncIterator[None]:
    dialer = Dialer(addresses([f"ws://127.0.0.1:{server.port}"]), lambda: "t", None)
    dialer.start(worker.link, worker.failures.append)
    try:
        yield
    finally:
        await asyncio.to_thread(dialer.close)


def fresh_worker() -> LinkedWorker:
    worker = LinkedWorker()
    worker.link.identity = replace(worker.link.identity, boot=boot())
    return worker


async def test_a_claim_is_acknowledged_once_it_is_committed() -> None:
    partitions, worker = Partitions(0, 1), fresh_worker()
    stage = Stage(partitions)
    with serving(partitions.owner, InMemory()) as server:
        async with dialing(server, worker):
            worker.claim("a")
            worker.claim("b", partition=1)
            await stage.until(lambda: sorted(worker.done()) == ["a", "b"])
            calls = partitions.roster.calls
            kinds = [call[0] for call in calls]
            assert kinds[:2] == ["connected", "heard"]
            assert calls[0][3] == tuple(handler.type for handler in HANDLERS)
            assert calls[1][3] == 4, "it offers its slots"
            assert worker.link.readiness.why is None
    assert worker.failures == []


async def test_what_was_dropped_with_its_partition_is_sent_again_when_it_is_back() -> None:
    partitions, worker = Partitions(0), fresh_worker()
    stage = Stage(partitions)
    with serving(partitions.owner, InMemory()) as server:
        async with dialing(server, worker):
            worker.claim("a")
            await stage.until(lambda: worker.done() == ["a"])
            worker.claim("b")
            await eventually(lambda: partitions.owner.waiting)
            in_flight = stage.take()
            partitions.owner.owned([])
            worker.claim("c")
            partitions.owner.owned([0])
            partitions.commit(in_flight)  # of this commit nobody knows the outcome
            await stage.until(lambda: worker.done() == ["a", "b", "c"])
    assert stage.claims[:1] == ["a"]
    assert [claim for claim in stage.claims if claim != "a"][-2:] == ["b", "c"]


async def test_a_second_process_of_a_name_ends_the_first_one() -> None:
    partitions, first, second = Partitions(0), fresh_worker(), fresh_worker()
    stage = Stage(partitions)
    with serving(partitions.owner, InMemory()) as server:
        async with dialing(server, first):
            await stage.until(lambda: partitions.owner.connected)
            async with dialing(server, second):
                await stage.until(lambda: bool(first.failures))
                second.claim("a")
                await stage.until(lambda: second.done() == ["a"])
    assert "instance" in str(first.failures[0]).lower()
    assert second.failures == []


async def test_an_owner_that_wants_credits_hears_of_them() -> None:
    partitions, worker = Partitions(0), fresh_worker()
    stage = Stage(partitions)
    with serving(partitions.owner, InMemory()) as server:
        async with dialing(server, worker):
            await stage.until(lambda: len(partitions.roster.calls) >= 2)
            who = str(partitions.roster.calls[0][1])
            partitions.commit([], to(who, Wanted()))
            worker.claim("a")
            await stage.until(lambda: worker.done() == ["a"])


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.005)
