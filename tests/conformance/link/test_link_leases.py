"""A lease is run to its end; slots are kept; runs are cancelled and lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.link_suite.leases import lease, next_run
from support.link_suite.play import SLOTS, Play
from support.link_suite.said import come

from streams.serde.link.messages import Leased

pytestmark = pytest.mark.long


async def test_a_lease_is_run_to_its_end(play: Play) -> None:
    leased = await play.run("echo", {"a": [1, None, "é"]})
    ended = await play.ended(leased)
    assert (ended.status, json.loads(ended.result)) == ("succeeded", {"a": [1, None, "é"]})


async def test_a_permanent_error_fails_the_job(play: Play) -> None:
    ended = await play.ended(await play.run("fails"))
    assert (ended.status, ended.result) == ("failed", None)
    assert "it never works" in ended.error


async def test_a_passing_error_asks_for_another_attempt(play: Play) -> None:
    ended = await play.ended(await play.run("retries"))
    assert (ended.status, ended.retry_after_seconds) == ("retry", 7)
    assert "not now" in ended.error


async def test_a_run_past_its_timeout_asks_for_another_attempt(play: Play) -> None:
    ended = await play.ended(await play.run("slow", {"seconds": 20}, timeout=0.5))
    assert ended.status == "retry"
    assert "TimeoutError" in ended.error


async def test_a_lease_of_nearly_a_megabyte_is_read(play: Play) -> None:
    ended = await play.ended(await play.run("measure", {"text": "x" * 900_000}))
    assert json.loads(ended.result) == {"length": 900_000}


async def test_a_run_fills_a_slot_until_it_ends(play: Play) -> None:
    session = await play.owner.connected()
    slow = [await play.run("slow", {"seconds": 30}) for _ in range(SLOTS)]
    await play.said.next("heartbeat")
    assert session.beat is not None
    assert session.beat.limit == SLOTS
    await play.owner.end_run(slow[0], "cancel")
    await come(lambda: session.beat and session.beat.limit == SLOTS + 1, "a slot is offered")
    assert (await play.ended(await play.run("echo", 1))).result == "1"


async def test_running_leases_are_listed_at_each_interval(play: Play) -> None:
    leased = await play.run("slow", {"seconds": 30}, partition=2)

    def listed() -> int:
        heartbeats = play.said.all("heartbeat")
        return sum(
            (leased.job_id, 1) in [(h.job_id, h.epoch) for h in t.body.leases] for t in heartbeats
        )

    await come(lambda: listed() >= 3, "three heartbeats that list the run")
    assert all(t.partition == 2 for t in play.said.all("heartbeat") if t.body.leases)


async def test_a_lease_that_comes_twice_is_run_once(play: Play) -> None:
    leased = await play.run("echo", 1)
    await play.ended(leased)
    await play.owner.lease(leased)
    other = await play.run("echo", 2)
    await play.ended(other)
    assert [t.job_id for t in play.said.all("ended")] == [leased.job_id, other.job_id]
    assert play.said.copies == []


async def test_a_lease_beyond_the_slots_is_declined(play: Play) -> None:
    session = await play.owner.connected()
    for _ in range(SLOTS):
        await play.run("slow", {"seconds": 30})
    beyond = lease("echo", 1)
    assert session.beat is not None
    await play.owner.send(Leased(0, session.beat.number, beyond))
    declined = await play.said.next("declined", beyond.job_id)
    assert declined.epoch == 1
    play.said.faults.clear()  # the owner of this scenario sent more than it was offered


async def test_a_lease_of_an_unknown_type_or_beat_is_declined(play: Play) -> None:
    unknown = await play.run("no_such_type")
    await play.said.next("declined", unknown.job_id)
    old = lease("echo", 1)
    await play.owner.lease(old, beat=1_000_000)
    await play.said.next("declined", old.job_id)
    assert play.said.all("ended") == []


async def test_a_cancelled_run_ends_as_cancelled(play: Play) -> None:
    leased = await play.run("slow", {"seconds": 30})
    await play.owner.end_run(leased, "cancel", "no longer needed")
    ended = await play.ended(leased)
    assert (ended.status, ended.result) == ("cancelled", None)


async def test_a_lost_run_says_nothing_more_and_its_slot_is_free(play: Play) -> None:
    session = await play.owner.connected()
    leased = await play.run("slow", {"seconds": 30})
    await play.owner.end_run(leased, "lost")
    await come(lambda: session.beat and session.beat.limit == SLOTS + 1, "its slot is offered")
    again = next_run(leased)
    again = replace(again, type="echo")
    await play.owner.lease(again)
    await play.ended(again)
    assert [told.epoch for told in play.said.all("ended")] == [2]


async def test_what_ends_another_run_of_the_job_ends_not_this_one(play: Play) -> None:
    leased = await play.run("slow", {"seconds": 1})
    await play.owner.end_run(replace(leased, epoch=9), "lost")
    assert (await play.ended(leased)).status == "succeeded"
