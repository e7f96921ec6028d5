"""A worker says who it is, and offers its slots; what it may not understand does not stop it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
from support.link_suite.leases import lease
from support.link_suite.play import SLOTS, TOKEN, Play, playing
from support.link_suite.said import come
from support.link_suite.workers import WorkerUnderTest

from streams.serde.link.messages import VERSION, Refused

pytestmark = pytest.mark.long


async def test_it_says_who_it_is_and_what_it_runs(play: Play) -> None:
    session = await play.owner.connected()
    hello = session.hello

    assert hello is not None
    assert session.authorization == f"Bearer {TOKEN}"
    assert (hello.version, hello.name, hello.slots) == (VERSION, "suite", SLOTS)
    assert UUID(hello.boot).version == 7
    types = {handler.type for handler in hello.handlers}
    assert {"echo", "two_effects", "wait_event", "children", "slow"} <= types


async def test_it_offers_all_its_slots_to_its_only_owner(play: Play) -> None:
    session = await play.owner.connected()
    await come(lambda: session.beat and session.beat.limit == SLOTS, "all slots offered")


async def test_it_introduces_itself_to_each_partition(play: Play) -> None:
    heartbeats = [await play.said.next("heartbeat") for _ in range(4)]
    assert {told.partition for told in heartbeats} == {0, 1, 2, 3}
    assert all(told.body.leases == () for told in heartbeats)


async def test_beats_come_at_the_interval(play: Play) -> None:
    session = await play.owner.connected()
    await come(lambda: len(session.beats) >= 8, "eight beats")
    times = [at for _, at in session.beats[-6:]]
    longest = max(b - a for a, b in itertools.pairwise(times))
    assert longest < 4 * play.terms.heartbeat


async def test_frames_may_be_binary_and_messages_have_fields_and_types_that_it_does_not_know(
    play: Play,
) -> None:
    play.owner.as_text = False
    await play.owner.raw('[{"type":"mood","fine":{"very":1}},{"type":"wanted","mood":"fine"}]')
    leased = await play.run("echo", {"a": 1})
    assert (await play.ended(leased)).status == "succeeded"


@pytest.mark.parametrize("reason", ["token", "version", "pool"])
async def test_a_refused_worker_says_nothing_more_and_dials_again_or_ends(
    linked_worker: WorkerUnderTest, tmp_path: Path, reason: str
) -> None:
    refusal = Refused(reason, "another one is needed")  # type: ignore[arg-type]
    async with playing(linked_worker, tmp_path, refusal=refusal) as play:
        await come(
            lambda: len(play.owner.sessions) > 1 or play.process.returncode,
            "it dials again, or ends with an error",
        )
        assert play.said.told == []
        if play.process.returncode is None:
            play.owner.refusal = None
            await play.owner.connected()
            made = lease("echo", 1)
            await play.owner.lease(made)
            assert (await play.ended(made)).result == "1"


@asynccontextmanager
async def nobody(port: int) -> AsyncIterator[list[None]]:
    """Take each connection to a port, note it, and end it at once."""
    dialed: list[None] = []

    def refuse(_: asyncio.StreamReader, peer: asyncio.StreamWriter) -> None:
        dialed.append(None)
        peer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", port):
        yield dialed


async def test_it_dials_an_owner_that_is_not_there_until_it_is(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path) as play:
        await play.owner.connected()
        await play.owner.close()
        async with nobody(play.owner.port) as dialed:
            await come(lambda: len(dialed) >= 2, "two more attempts")
        await play.owner.open()
        await play.owner.connected()
