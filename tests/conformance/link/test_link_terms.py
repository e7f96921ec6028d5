"""A run starts nothing once its lease may be over; only acknowledged heartbeats extend it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.link_suite.owner import Terms
from support.link_suite.play import SLOTS, playing
from support.link_suite.said import come
from support.link_suite.workers import WorkerUnderTest

from streams.serde.link.messages import Acked

pytestmark = pytest.mark.long
SHORT = Terms(heartbeat=0.3, term=3.0, margin=1.0)


async def test_nothing_starts_once_no_heartbeat_is_acknowledged_for_a_term(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, terms=SHORT) as play:
        await play.owner.connected()
        play.tool.gate.clear()
        leased = await play.run("two_effects", {"to": "Ann"})
        await play.granted(leased, "key-1")
        await come(lambda: play.tool.calls, "the call")
        play.owner.holds = True
        await asyncio.sleep(SHORT.term)
        play.tool.gate.set()
        play.owner.holds = False
        await play.owner.acknowledge()
        outcome = await play.said.next("outcome", leased.job_id)
        assert outcome.body.action == "mail/first"
        await play.ended(await play.run("echo", 1))
        assert [t.body.action for t in play.said.all("claim")] == ["mail/first"]
        assert play.said.all("ended", leased.job_id) == []


async def test_a_granted_claim_that_comes_too_late_calls_nothing(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, terms=SHORT) as play:
        await play.owner.connected()
        leased = await play.run("two_effects", {"to": "Ann"})
        claim = await play.said.next("claim", leased.job_id)
        play.owner.holds = True
        await asyncio.sleep(SHORT.term)
        play.owner.holds = False
        await play.owner.answer(claim, "granted", idempotency_key="key-1")
        outcome = (await play.said.next("outcome", leased.job_id)).body
        assert outcome.status == "unknown"  # an earlier run may have called a tool with keys
        await play.ended(await play.run("echo", 1))
        assert play.tool.calls == []


async def test_acknowledged_heartbeats_extend_a_lease(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, terms=SHORT) as play:
        await play.owner.connected()
        leased = await play.run("slow", {"seconds": 2 * SHORT.term})
        ended = await play.ended(leased)
        assert ended.status == "succeeded"


async def test_a_heartbeat_that_is_acknowledged_late_extends_by_when_it_was_sent(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    slow = Terms(heartbeat=0.3, term=6.0, margin=1.0)
    async with playing(linked_worker, tmp_path, terms=slow) as play:
        session = await play.owner.connected()
        leased = await play.run("slow", {"seconds": 30})
        await play.listed(leased)
        play.owner.holds = True
        heard = len(play.said.all("heartbeat"))
        first = await come(lambda: play.said.all("heartbeat")[heard:], "a heartbeat")
        sent_at = asyncio.get_running_loop().time()
        await asyncio.sleep(slow.term - 2 * slow.margin)
        await play.owner.send(Acked({leased.home_partition: first[0].order.number}))
        limit = session.sent + SLOTS
        await come(lambda: session.beat and session.beat.limit == limit, "its slot is free")
        held_for = asyncio.get_running_loop().time() - sent_at
        assert held_for < slow.term + slow.margin
        assert play.said.all("ended", leased.job_id) == []


async def test_the_margin_is_kept(linked_worker: WorkerUnderTest, tmp_path: Path) -> None:
    wide = Terms(heartbeat=0.3, term=8.0, margin=6.0)
    async with playing(linked_worker, tmp_path, terms=wide) as play:
        session = await play.owner.connected()
        leased = await play.run("slow", {"seconds": 30})
        await play.listed(leased)
        play.owner.holds = True
        at = asyncio.get_running_loop().time()
        limit = session.sent + SLOTS
        await come(lambda: session.beat and session.beat.limit == limit, "its slot is free")
        assert asyncio.get_running_loop().time() - at < wide.term - wide.margin / 2


async def test_a_cut_of_a_whole_term_ends_the_run(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, terms=SHORT) as play:
        await play.owner.connected()
        leased = await play.run("slow", {"seconds": 5})
        await play.owner.close()
        await asyncio.sleep(SHORT.term)
        await play.owner.open()
        await play.owner.connected()
        await play.ended(await play.run("echo", 1))
        assert play.said.all("ended", leased.job_id) == []
