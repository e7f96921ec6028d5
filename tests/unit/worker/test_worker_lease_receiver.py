"""Every lease gets its answer at once, and no partition starves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import structlog
from support.worker_bench import CLUSTER_KEY, OLDER_KEY, Bench, Clock, bench

from streams import App, Context
from streams.serde.codec import DEAD_LETTER
from streams.serde.lease_mac import seal_lease
from streams.serde.records import Command, Declined, Ended, Heartbeat, HeldLease
from streams.serde.sizes import PRODUCER_BATCH_BYTES
from streams.topology.model import MAX_MESSAGE_BYTES, LeasePolicy
from streams.worker.transport import replies


def waiting_app() -> tuple[App, asyncio.Event, list[str]]:
    """Its handlers note that they began and wait for the event."""
    app, go_on, begun = App("test"), asyncio.Event(), []

    @app.job("job")
    async def handler(ctx: Context) -> None:
        begun.append(ctx.job_id)
        await go_on.wait()

    return app, go_on, begun


async def test_a_lease_of_another_boot_is_not_mine() -> None:
    app, _, begun = waiting_app()
    async with bench(app) as at:
        declined = await at.declined(at.give(worker_id="w1/earlier", epoch=4))
        _, command = at.commands()[-1]
    assert (declined.reason, command.epoch, begun) == ("not_mine", 4, [])


async def test_a_forged_lease_is_never_run_and_stands_in_the_dead_letters() -> None:
    app, _, begun = waiting_app()
    async with bench(app) as at:
        lease = at.give(worker_id="w1/earlier")
        forged = seal_lease(replace(lease, worker_id=at.worker.id), b"x" * 32)
        at.transport.lease(forged, partition=3)
        at.transport.lease(b"noise", partition=3)
        letters = [DEAD_LETTER.decode(s.value) for s in at.transport.sent if s.topic == "dlq"]
    assert [(d.reason, d.kind, d.stage, d.partition) for d in letters] == [
        ("forged_lease", "record", "worker", 3)
    ] * 2
    assert letters[0].value == forged
    assert letters[0].id == f"worker:jobs.work.default:3:{letters[0].offset}"
    assert not begun


async def test_a_lease_under_an_older_key_is_run_while_the_worker_is_given_that_key() -> None:
    app, go_on, begun = waiting_app()
    async with bench(app) as at:
        answered = at.heartbeats(0)[-1].command_id
        lease = replace(at.blank(), heartbeat_id=answered)
        at.transport.lease(seal_lease(lease, OLDER_KEY), key=lease.tenant_id.encode())
        go_on.set()
        await at.ended(lease)
        assert not [each for each in at.transport.sent if each.topic == "dlq"]
    assert begun == [lease.job_id]


async def test_a_sealed_record_that_does_not_decode_is_a_dead_letter_too() -> None:
    import hmac

    app, _, _ = waiting_app()
    async with bench(app) as at:
        at.transport.lease(b"junk" + hmac.digest(CLUSTER_KEY, b"junk", "sha256"))
        at.transport.reply(b"junk")
        letters = [DEAD_LETTER.decode(s.value) for s in at.transport.sent if s.topic == "dlq"]
    assert [(d.reason, d.topic) for d in letters] == [
        ("undecodable", "jobs.work.default"),
        ("undecodable", "jobs.replies"),
    ]


async def test_the_dead_letter_of_a_huge_record_fits_a_message_and_says_that_it_is_cut() -> None:
    app, _, _ = waiting_app()
    async with bench(app) as at:
        at.transport.lease(b"v" * MAX_MESSAGE_BYTES, key=b"k" * MAX_MESSAGE_BYTES)
        at.transport.lease(b"v", key=b"k")
        sent = [s.value for s in at.transport.sent if s.topic == "dlq"]
    assert len(sent[0]) < PRODUCER_BATCH_BYTES - 512
    assert [DEAD_LETTER.decode(value).cut for value in sent] == [True, False]


async def test_an_unknown_type_names_it_and_the_known_ones() -> None:
    app, _, _ = waiting_app()
    async with bench(app) as at:
        declined = await at.declined(at.give("jobb"))
    assert declined.reason == "unknown_type"
    assert "'jobb'" in declined.detail
    assert "job" in declined.detail.split("known here: ")[1]


async def test_a_lease_on_an_unknown_or_old_heartbeat_is_bad() -> None:
    app, _, begun = waiting_app()
    async with bench(app, leases=LeasePolicy(term_seconds=30, margin_seconds=5)) as at:
        unknown = await at.declined(at.give(heartbeat_id="cmd_x"))
        old = await at.declined(at.give(term_seconds=5.0))
    assert (unknown.reason, old.reason, begun) == ("bad_lease", "bad_lease", [])


async def test_one_lease_read_twice_runs_once() -> None:
    app, go_on, begun = waiting_app()
    async with bench(app) as at:
        go_on.set()
        lease = at.give()
        await at.ended(lease)
        at.transport.lease(seal_lease(lease, CLUSTER_KEY))
        other = at.give()
        await at.ended(other)
    assert begun == [lease.job_id, other.job_id]
    assert not at.bodies(Declined)


def offered(at: Bench, since: int) -> list[tuple[int, int]]:
    """(partition, free) of the heartbeats after the first `since` commands."""
    return [(p, c.body.free) for p, c in at.commands()[since:] if isinstance(c.body, Heartbeat)]


async def test_a_full_worker_declines_and_gives_freed_slots_in_turn() -> None:
    app, go_on, _ = waiting_app()
    async with bench(app, slots=1) as at:
        first = at.give(home_partition=3)
        for home in (2, 1, 2):
            declined = await at.declined(at.give(home_partition=home))
            assert (declined.reason, declined.free) == ("full", 0)
        told = len(at.commands())
        go_on.set()
        assert (await at.ended(first)).free == 0
        assert offered(at, told) == [(2, 1)]
        told = len(at.commands())
        assert (await at.ended(at.give(home_partition=2))).free == 0
        assert offered(at, told) == [(1, 1)]
        told = len(at.commands())
        assert (await at.ended(at.give(home_partition=1))).free == 1
        assert offered(at, told) == []


async def test_a_partition_that_hears_of_the_slot_by_the_end_is_not_told_twice() -> None:
    app, go_on, _ = waiting_app()
    async with bench(app, slots=1) as at:
        first = at.give(home_partition=2)
        await at.declined(at.give(home_partition=2))
        told = len(at.commands())
        go_on.set()
        assert (await at.ended(first)).free == 1
        assert offered(at, told) == []


async def test_a_lease_on_a_credit_that_was_moved_is_taken_while_a_slot_is_free() -> None:
    app, _, begun = waiting_app()
    async with bench(app, slots=2) as at:  # the credits of partitions 2 and 3
        told = len(at.commands())
        at.give(home_partition=0, number=1)
        assert offered(at, told) == [(0, 0), (2, 0)]
        at.worker.heartbeater.beat(0)
        body: Any = at.heartbeats(0)[-1].body
        assert (body.free, body.received, len(body.leases)) == (0, 1, 1)
        at.give(home_partition=0, number=2)
        declined = await at.declined(at.give(home_partition=0, number=3))
        assert (declined.reason, declined.free, declined.received) == ("full", 0, 3)
    assert len(begun) == 2


async def test_a_partition_that_wants_credits_gets_those_unused_elsewhere() -> None:
    app, _, _ = waiting_app()
    clock = Clock()
    async with bench(app, slots=4, clock=clock) as at:
        clock.now += 1
        told = len(at.commands())
        at.notice("wanted", partition=1)
        assert offered(at, told) == [(0, 0), (1, 2)]


async def test_a_dispatcher_that_asks_who_is_there_hears_the_handlers() -> None:
    app, _, _ = waiting_app()
    async with bench(app, slots=4) as at:
        at.give(home_partition=1, number=1)
        told = len(at.commands())
        at.notice("who", partition=1, worker_id="")
        ((partition, command),) = at.commands()[told:]
        body: Any = command.body
        assert (partition, [h.type for h in body.handlers]) == (1, ["job"])
        assert len(body.leases) == 1


async def test_an_undeclared_pool_is_a_reason_not_to_be_ready() -> None:
    app, _, _ = waiting_app()
    clock = Clock()
    async with bench(app, clock=clock) as at:
        assert at.worker.unready is None
        at.notice("no_pool", partition=1)
        assert at.worker.unready
        assert "add it to `pools` of its topology.yaml" in (at.worker.unready or "")
        at.notice("who", partition=1, worker_id="")
        assert at.worker.unready is None
        at.notice("no_pool", partition=1)
        clock.now += 150
        at.worker.heartbeater.beat()
        assert at.worker.unready is None


async def test_the_remedy_for_an_undeclared_pool_is_told_once_a_minute() -> None:
    app, _, _ = waiting_app()
    clock = Clock()
    async with bench(app, clock=clock) as at:
        with structlog.testing.capture_logs() as lines:
            for clock.now in (1, 30, 60.9, 61.1, 100):
                at.notice("no_pool", partition=1)
    assert len(lines) == 2
    assert "`tidegate topology apply`" in lines[0]["reason"]


async def test_a_worker_is_ready_while_heartbeats_are_acknowledged() -> None:
    app, _, _ = waiting_app()
    clock = Clock()
    async with bench(app, clock=clock) as at:
        clock.now += 12.5
        assert at.worker.unready is None
        clock.now += 0.1
        assert "no heartbeat was acknowledged" in (at.worker.unready or "")
        at.worker.heartbeater.beat()
        assert at.worker.unready is None
        at.worker.held_leases.draining = True
        assert at.worker.unready == "the worker shuts down"


@pytest.mark.parametrize(("kind", "status"), [("cancel", "cancelled"), ("lost", None)])
async def test_a_reply_that_overtakes_its_lease_is_kept_for_it(
    kind: str, status: str | None
) -> None:
    app, go_on, begun = waiting_app()
    async with bench(app) as at:
        go_on.set()
        at.reply(replace(at.blank(), job_id="job_1", epoch=7), kind, message="not needed")
        at.give(job_id="job_1", epoch=7)
        at.give(job_id="job_1", epoch=8)
        await at.until(lambda: begun, "the later lease runs")
        await at.idle()
        said = {c.epoch: c.body for _, c in at.commands() if c.job_id == "job_1"}
        earlier, later = said.get(7), said[8]
        assert isinstance(later, Ended)
        assert later.status == "succeeded"
        assert (isinstance(earlier, Ended) and earlier.status) == (status or False)
        assert at.worker.held_leases.free() == 20
    assert begun == ["job_1"]


async def test_a_cancel_that_came_after_its_run_ends_no_run_of_a_later_job() -> None:
    """A job that is purged and asked for again has the same id, and begins with the same epoch."""
    app, go_on, begun = waiting_app()
    async with bench(app) as at:
        go_on.set()
        over = replace(at.blank(), job_id="job_1", epoch=1)
        at.reply(over, "cancel", message="not needed", run_id="job_1.1.before")
        later = at.give(job_id="job_1", epoch=1)
        assert (await at.ended(later)).status == "succeeded"
    assert begun == ["job_1"]


async def test_replies_to_leases_that_never_come_are_not_kept_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replies, "_REMEMBERED", 3)
    app, _, _ = waiting_app()
    async with bench(app) as at:
        for epoch in range(9):
            at.reply(replace(at.blank(), job_id="job_1", epoch=epoch), "lost")
        await asyncio.sleep(0)
        assert list(at.worker._replies._early) == [("job_1", 6), ("job_1", 7), ("job_1", 8)]


async def test_a_declined_lease_read_twice_is_counted_once() -> None:
    app, _, _ = waiting_app()
    async with bench(app) as at:
        lease = at.give("unknown", number=1)
        at.transport.lease(seal_lease(lease, CLUSTER_KEY))
        assert len(at.bodies(Declined)) == 1
        at.worker.heartbeater.beat(0)
        body: Any = at.heartbeats(0)[-1].body
        assert body.received == 1


async def test_heartbeats_list_the_leases_of_their_partition_until_the_end_is_known() -> None:
    app, go_on, _ = waiting_app()
    async with bench(app) as at:
        here, there = at.give(home_partition=0), at.give(home_partition=1)
        at.worker.heartbeater.beat()
        assert listed(at.heartbeats(0)) == (HeldLease(here.job_id, 1, False),)
        assert listed(at.heartbeats(1)) == (HeldLease(there.job_id, 1, False),)
        assert listed(at.heartbeats(2)) == ()
        go_on.set()
        await at.ended(here)
        await at.ended(there)
        await at.idle()
        at.worker.heartbeater.beat()
        assert listed(at.heartbeats(0)) == ()
        assert len(at.bodies(Ended)) == 2


def listed(heartbeats: list[Command]) -> tuple[HeldLease, ...]:
    body: Any = heartbeats[-1].body
    return tuple(body.leases)


async def test_without_a_partition_nothing_is_asked_for_but_leases_are_kept() -> None:
    app, _, _ = waiting_app()
    async with bench(app, slots=12) as at:
        lease = at.give()
        at.transport.assign(None)
        body: Any = at.heartbeats(0)[-1].body
        assert (body.free, body.work_partition) == (0, 3)
        assert listed(at.heartbeats(0)) == (HeldLease(lease.job_id, 1, False),)
        assert at.worker.unready
        at.transport.assign(5)
        body = at.heartbeats(0)[-1].body
        assert (body.free, body.work_partition) == (2, 5)
        assert at.worker.unready is None


async def test_a_heartbeat_announces_worker_pool_and_handlers() -> None:
    app, _, _ = waiting_app()
    async with bench(app, slots=12) as at:
        command = at.heartbeats(2)[-1]
        body: Any = command.body
        (sent,) = (s for s in at.transport.sent if command.command_id.encode() in s.value)
    assert (body.worker_id, body.pool, body.free) == (at.worker.id, "default", 3)
    assert [h.type for h in body.handlers] == ["job"]
    assert (sent.key, command.tenant_id, command.job_id) == (at.worker.id.encode(), "", "")
