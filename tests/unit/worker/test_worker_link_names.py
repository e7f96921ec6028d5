"""A name that stands for several owners: each address is dialed, and none waits for another."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from structlog.testing import capture_logs
from support.dialed_owner import DialedOwner, serving
from support.host_names import HostNames
from support.link_suite.said import come
from support.linked_worker import LinkedWorker

from streams.serde.link.messages import Beat
from streams.worker.lease.credits import TOGETHER_SECONDS
from streams.worker.link import addresses, dialer, dialing
from streams.worker.link.addresses import Target
from streams.worker.link.dialer import Dialer
from streams.worker.link.dialing import Dialing


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> HostNames:
    monkeypatch.setattr(dialing, "LOOK_SECONDS", 0.01)
    made = HostNames(owners=["127.0.0.1", "127.0.0.2"])
    made.install(monkeypatch)
    return made


@asynccontextmanager
async def dials(*hosts: str, port: int) -> AsyncIterator[LinkedWorker]:
    worker = LinkedWorker()
    places = addresses.addresses([f"ws://{host}:{port}" for host in hosts])
    dialer_ = Dialer(places, lambda: None, None)
    dialer_.start(worker.link, worker.failures.append)
    try:
        yield worker
    finally:
        await asyncio.to_thread(dialer_.close)
    assert worker.failures == []


async def greeted(*owners: DialedOwner) -> None:
    for owner in owners:
        await owner.until(partial(_is_greeted, owner))


def _is_greeted(owner: DialedOwner) -> bool:
    return "Hello" in owner.kinds()


async def test_each_address_of_a_name_is_dialed(names: HostNames) -> None:
    async with (
        serving(host="127.0.0.1") as one,
        serving(host="127.0.0.2", port=one.port) as two,
        dials("owners", port=one.port),
    ):
        await greeted(one, two)
    assert (len(one.tokens), len(two.tokens)) == (1, 1)


async def test_each_address_gets_its_share_of_the_slots_at_once(names: HostNames) -> None:
    """One that nobody has looked up yet counts as one owner."""
    names.hanging.add("away")
    async with (
        serving(host="127.0.0.1") as one,
        serving(host="127.0.0.2", port=one.port) as two,
        dials("owners", "away", port=one.port) as worker,
    ):
        await one.until(lambda: "Beat" in one.kinds())
        await two.until(lambda: "Beat" in two.kinds())
        worker.pass_time(TOGETHER_SECONDS / 2)
        limits = [[b.limit for b in owner.said if isinstance(b, Beat)] for owner in (one, two)]
    assert sorted(limits) == [[1], [2]]


async def test_an_address_that_a_name_gains_is_dialed(names: HostNames) -> None:
    async with (
        serving(host="127.0.0.1") as one,
        serving(host="127.0.0.2", port=one.port) as two,
        serving(host="127.0.0.3", port=one.port) as three,
        dials("owners", port=one.port),
    ):
        await greeted(one, two)
        assert three.tokens == []
        names.table["owners"] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        await greeted(three)
    assert (len(one.tokens), len(two.tokens)) == (1, 1)


async def test_an_address_that_a_name_loses_is_served_to_its_end_and_not_dialed_again(
    names: HostNames,
) -> None:
    async with (
        serving(host="127.0.0.1") as one,
        serving(host="127.0.0.2", port=one.port) as two,
        dials("owners", port=one.port) as worker,
    ):
        await greeted(one, two)
        names.table["owners"] = ["127.0.0.2"]
        await names.looks_again()
        assert not one.sockets[0].closed
        worker.claim("still sent")  # its partition belongs to either
        await one.sockets[0].close()
        await two.sockets[0].close()
        await two.until(lambda: len(two.tokens) == 2)
        await two.sockets[1].close()
        await two.until(lambda: len(two.tokens) == 3)
    assert len(one.tokens) == 1


async def test_a_name_without_any_address_keeps_those_that_it_had(names: HostNames) -> None:
    """Its name servers may be away."""
    async with serving(host="127.0.0.1") as one, dials("owners", port=one.port):
        await greeted(one)
        names.table["owners"] = []
        await names.looks_again()
        await one.sockets[0].close()
        await one.until(lambda: len(one.tokens) == 2)


async def test_an_address_that_never_answers_holds_up_no_other(
    names: HostNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialer, "_CONNECT_SECONDS", 3600.0)
    async with serving(host="127.0.0.2") as two:
        with socket.create_server(("127.0.0.1", two.port)) as silent:
            silent.setblocking(False)
            async with dials("owners", port=two.port):
                loop = asyncio.get_running_loop()
                taken, _ = await loop.sock_accept(silent)
                await greeted(two)
                await two.sockets[0].close()
                await two.until(lambda: len(two.tokens) == 2)
                taken.close()


async def test_a_name_server_that_never_answers_holds_up_no_other_name(names: HostNames) -> None:
    names.hanging.add("away")
    names.table["here"] = ["127.0.0.1"]
    async with serving(host="127.0.0.1") as one, dials("away", "here", port=one.port):
        await greeted(one)
        await one.sockets[0].close()
        await one.until(lambda: len(one.tokens) == 2)


async def test_an_owner_that_starts_beside_the_worker_is_no_warning(
    names: HostNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "_FIRST_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(dialing, "_LONGEST_PAUSE_SECONDS", 1.0)
    names.table["owners"] = ["127.0.0.1"]
    warnings, closed = [], threading.Event()
    places = addresses.addresses(["ws://owners:1"])

    async def refused(target: Target) -> str:
        warnings.append(len(said))
        return "nobody listens"

    with capture_logs() as said:
        running = asyncio.create_task(Dialing(LinkedWorker().link, places, refused).run(closed))
        await come(lambda: said, "a warning")
        closed.set()
        await running
    assert warnings == [0, 0, 0, 0]  # before each attempt, after pauses of 0.2, 0.4 and 0.8 s
    assert [each["why"] for each in said] == ["nobody listens"]
