"""A run starts nothing once its lease may be over; only acknowledged heartbeats extend it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.link_suite.leases import next_run
from support.link_suite.owner import Terms
from support.link_suite.play import playing
from support.link_suite.said import come
from support.link_suite.workers import WorkerUnderTest

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
    """The owner is slow by more than half a term: the run stops, although acknowledgements come."""
    async with playing(linked_worker, tmp_path, terms=SHORT) as play:
        session = await play.owner.connected()
        leased = await play.run("slow", {"seconds": 30})
        play.owner.holds = True
        heard = len(play.said.all("heartbeat"))
        await come(lambda: len(play.said.all("heartbeat")) > heard, "a heartbeat")
        await asyncio.sleep(SHORT.term - SHORT.margin)
        await play.owner.acknowledge()
        limit = session.sent
        await come(lambda: session.beat and session.beat.limit > limit + 3, "its slot is free")
        again = next_run(leased)
        play.owner.holds = False
        await play.owner.acknowledge()
        await play.owner.lease(again)
        await play.owner.end_run(again, "cancel")
        await play.ended(again)
        assert [t.epoch for t in play.said.all("ended")] == [2]


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
