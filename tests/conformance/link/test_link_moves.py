"""Connections break and partitions move: nothing that is not acknowledged is lost or done twice."""

from __future__ import annotations

import asyncio
from functools import partial
from operator import getitem
from pathlib import Path

import pytest
from support.link_suite.leases import lease
from support.link_suite.owner import ScriptedOwner
from support.link_suite.play import SLOTS, Play, playing
from support.link_suite.said import PATIENCE_SECONDS, Told, come
from support.link_suite.workers import WorkerUnderTest

from streams.serde.link.messages import Wanted
from streams.serde.records import HeldLease

pytestmark = pytest.mark.long


async def again(play: Play, told: Told) -> None:
    """Return once a command has come a second time, with the same content."""

    def same() -> list[Told]:
        return [copy for copy in play.said.copies if copy.content == told.content]

    await come(same, f"{told} again")


async def test_a_cut_before_the_answer_to_a_claim(play: Play) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})
    claim = await play.said.next("claim", leased.job_id)
    await play.owner.cut()
    await play.owner.connected()
    await again(play, claim)
    await play.owner.answer(claim, "granted", idempotency_key="key-1")
    await play.granted(leased, "key-2")
    assert (await play.ended(leased)).status == "succeeded"
    assert play.tool.keys == ["key-1", "key-2"]


async def test_a_cut_before_an_outcome_is_acknowledged(play: Play) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})
    claim = await play.said.next("claim", leased.job_id)
    play.owner.holds = True
    await play.owner.answer(claim, "granted", idempotency_key="key-1")
    outcome = await play.said.next("outcome", leased.job_id)
    await play.owner.cut()
    play.owner.holds = False
    await play.owner.connected()
    await again(play, outcome)
    await play.granted(leased, "key-2")
    assert (await play.ended(leased)).status == "succeeded"
    assert play.tool.keys == ["key-1", "key-2"]


async def test_a_cut_during_a_call_does_not_end_it(play: Play) -> None:
    play.tool.gate.clear()
    leased = await play.run("two_effects", {"to": "Ann"})
    await play.granted(leased, "key-1")
    await come(lambda: play.tool.calls, "the call")
    await play.owner.cut()
    await play.owner.connected()
    play.tool.gate.set()
    await play.granted(leased, "key-2")
    assert (await play.ended(leased)).status == "succeeded"
    assert play.tool.keys == ["key-1", "key-2"]


@pytest.mark.parametrize(
    ("type_", "value", "kind"),
    [
        ("step_then_effect", {"name": "Ann"}, "checkpoint"),
        ("children", None, "enqueue"),
        ("echo", 1, "ended"),
        ("wait_time", {"seconds": 60}, "ended"),
        ("fails", None, "ended"),
    ],
)
async def test_a_cut_before_a_command_is_acknowledged(
    play: Play, type_: str, value: object, kind: str
) -> None:
    play.owner.holds = True
    leased = await play.run(type_, value)
    told = await play.said.next(kind, leased.job_id)
    await play.owner.cut()
    await play.owner.connected()
    await again(play, told)
    assert play.said.all(kind, leased.job_id) == [told]


async def test_what_is_acknowledged_does_not_come_again(play: Play) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})
    await play.granted(leased, "key-1")
    claim = await play.said.next("claim", leased.job_id)  # the first outcome is acknowledged
    await play.owner.cut()
    await play.owner.connected()
    await again(play, claim)
    assert [copy.kind for copy in play.said.copies] == ["claim"]


async def test_commands_come_again_in_order_behind_an_introduction(play: Play) -> None:
    play.owner.holds = True
    first = await play.run("echo", 1)
    await play.said.next("ended", first.job_id)
    second = await play.run("echo", 2)
    await play.said.next("ended", second.job_id)
    await play.owner.cut()
    before = len(play.said.all("heartbeat"))
    await play.owner.connected()
    await come(lambda: len(play.said.copies) == 2, "both ends again")
    assert [copy.job_id for copy in play.said.copies] == [first.job_id, second.job_id]
    assert len(play.said.all("heartbeat")) > before


async def test_a_run_goes_on_over_a_new_connection_and_its_lease_is_listed_there(
    play: Play,
) -> None:
    leased = await play.run("slow", {"seconds": 3})
    await play.owner.cut()
    await play.owner.connected()
    mark = len(play.said.all("heartbeat"))

    def held() -> list[HeldLease]:
        return [h for t in play.said.all("heartbeat")[mark:] for h in t.body.leases]

    found = await come(held, "a heartbeat that lists the run")
    assert found[0].job_id == leased.job_id
    assert (await play.ended(leased)).status == "succeeded"


async def test_two_owners_share_the_slots_and_get_what_is_theirs(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, owned=((0, 1), (2, 3))) as play:
        sessions = [await owner.connected() for owner in play.owners]

        def shared() -> bool:
            limits = [each.beat.limit if each.beat else 0 for each in sessions]
            return sum(limits) == SLOTS and min(limits) > 0

        await come(shared, "both owners may send leases")
        for owner, partition in zip(play.owners, (1, 2), strict=True):
            leased = lease("echo", partition, partition)
            await owner.lease(leased)
            told = await play.said.next("ended", leased.job_id)
            assert (told.partition, told.body.result) == (partition, str(partition))


async def test_the_heir_of_a_partition_gets_what_is_not_acknowledged(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, owned=((0, 1), (2, 3))) as play:
        first, heir = play.owners
        await first.connected()
        await heir.connected()
        leased = await play.run("two_effects", {"to": "Ann"}, partition=1)
        claim = await play.said.next("claim", leased.job_id)
        first.holds = True
        await first.answer(claim, "granted", idempotency_key="key-1")
        outcome = await play.said.next("outcome", leased.job_id)
        await first.close()
        await heir.owns((0, 1, 2, 3))
        await again(play, outcome)
        claim = await play.said.next("claim", leased.job_id)
        await heir.answer(claim, "granted", idempotency_key="key-2")
        assert (await play.ended(leased)).status == "succeeded"
        assert play.tool.keys == ["key-1", "key-2"]


async def test_a_partition_moves_while_both_connections_stand(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, owned=((0, 1), (2, 3))) as play:
        first, heir = play.owners
        await first.connected()
        await heir.connected()
        first.holds = True
        leased = await play.run("echo", 1, partition=1)
        told = await play.said.next("ended", leased.job_id)
        await first.owns((0,))
        await heir.owns((1, 2, 3))
        await again(play, told)
        await first.acknowledge()  # too late, and of numbers that count no more
        other = lease("echo", 2, 1)
        await heir.lease(other)
        await play.said.next("ended", other.job_id)


async def test_the_owner_that_names_a_partition_last_has_it(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, owned=((0, 1), (2, 3))) as play:
        first, heir = play.owners
        await first.connected()
        await heir.connected()
        first.holds = True
        leased = await play.run("echo", 1, partition=1)
        told = await play.said.next("ended", leased.job_id)
        await heir.owns((1, 2, 3))  # the former owner has not said yet that it is not its own
        await again(play, told)


async def test_an_owner_that_wants_slots_gets_one(
    linked_worker: WorkerUnderTest, tmp_path: Path
) -> None:
    async with playing(linked_worker, tmp_path, owned=((0, 1), (2, 3))) as play:
        first, other = play.owners
        await other.connected()
        await first.connected()
        for _ in range(SLOTS - 1):
            await _offers(first)
            await first.lease(lease("slow", {"seconds": 60}, 0))
        await _offers(other)


async def _offers(owner: ScriptedOwner) -> None:
    """Go on asking, here at each beat, until the worker offers a slot."""
    session = await owner.connected()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while session.beat is None or session.beat.limit <= session.sent:
            told = len(session.beats)
            await owner.send(Wanted())
            await come(partial(getitem, session.beats, slice(told, None)), "another beat")
