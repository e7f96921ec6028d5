"""A worker gets the bodies of its living leases, whole and in pieces, and no other's."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed
from support.link_desk import (
    EPOCH,
    PARTITION,
    WORKER,
    LinkDesk,
    Wire,
    an_event,
    left_by_event,
    some_bytes,
)

from streams.link.answering import MOST_OPEN
from streams.link.bodies import PIECE_BYTES
from streams.link.grant import Grant
from streams.serde.link.messages import Body, Failed, Piece
from streams.serde.records import BatchedEvent, StepResult
from streams.serde.sizes import CHUNK_BYTES

ASKED = Body(7, PARTITION, "job_a", EPOCH)


async def turns(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * CHUNK_BYTES + 5])
async def test_a_body_comes_whole_and_in_pieces(size: int) -> None:
    desk, body = LinkDesk(), some_bytes(size)
    desk.with_body(body)
    wire = desk.ask(Wire(), ASKED)
    assert await wire.got(7) == body
    pieces = [piece for piece in wire.sent if isinstance(piece, Piece)]
    assert len(pieces) == max(1, -(-size // PIECE_BYTES))
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]


async def test_the_body_of_an_event_of_a_batch_comes_by_its_place() -> None:
    desk = LinkDesk()
    events = [an_event(f"evt_{number}") for number in range(3)]
    batch = [
        BatchedEvent(event, desk.stored("acme", event.event_id, event.event_id.encode()))
        for event in events
    ]
    desk.leased(events=tuple(batch))
    wire = desk.ask(Wire(), *(changed(ASKED, request=n, index=n) for n in range(3)))
    assert [await wire.got(n) for n in range(3)] == [b"evt_0", b"evt_1", b"evt_2"]
    for index in (-1, 3):
        failed = await desk.ask(Wire(), changed(ASKED, index=index)).failure()
        assert failed.permanent


async def test_the_body_of_an_event_that_ended_a_wait_comes_by_the_wait() -> None:
    desk, event = LinkDesk(), an_event("evt_9")
    job = desk.leased()
    ref = desk.stored("acme", "evt_9", b"waited for")
    desk.leave(job, left_by_event("paid", event, ref))
    assert await desk.ask(Wire(), changed(ASKED, wait="paid")).got(7) == b"waited for"


@pytest.mark.parametrize("wait", ["none", "step", "late"])
async def test_a_wait_without_an_event_has_no_body(wait: str) -> None:
    desk = LinkDesk()
    job = desk.leased()
    ref = desk.stored("acme", "evt_9", b"x")
    desk.leave(job, left_by_event("step", an_event("evt_9"), ref, kind="step"))
    desk.leave(job, StepResult("late", "event", raises="WaitTimeout"))
    assert (await desk.ask(Wire(), changed(ASKED, wait=wait)).failure()).permanent


@pytest.mark.parametrize(
    ("worker", "changes"),
    [
        ("worker_b:1", {}),
        ("worker_a:2", {}),
        (WORKER, {"epoch": EPOCH + 1}),
        (WORKER, {"status": "waiting"}),
        (WORKER, {"status": "succeeded"}),
        (WORKER, {"status": "pending", "worker_id": None}),
    ],
    ids=["another worker", "another boot", "an old epoch", "parked", "ended", "given back"],
)
async def test_a_worker_without_the_living_lease_gets_nothing(
    worker: str, changes: dict[str, object]
) -> None:
    desk = LinkDesk()
    job = desk.with_body(b"secret")
    desk.put(replace(job, **changes))  # type: ignore[arg-type]
    failed = await desk.ask(Wire(worker), ASKED).failure()
    assert "no living lease" in failed.message
    assert not failed.permanent, "another owner may know of it"


@pytest.mark.parametrize(
    "grant",
    [Grant("t", "t", tenants=frozenset({"beta"})), Grant("t", "t", job_types=("other",))],
    ids=["another tenant", "another type"],
)
async def test_a_token_that_does_not_allow_the_job_gets_nothing(grant: Grant) -> None:
    desk = LinkDesk()
    desk.with_body(b"secret")
    assert "no living lease" in (await desk.ask(Wire(grant=grant), ASKED).failure()).message


async def test_the_same_ids_at_another_place_or_tenant_give_nothing() -> None:
    """A body opens under the tenant of the committed job alone, for its own event alone."""
    desk = LinkDesk()
    theirs = desk.with_body(b"secret", "job_b", "beta")
    ours = desk.leased("job_a", "acme", event=theirs.event, payload_ref=theirs.payload_ref)
    desk.key("acme")
    wire = desk.ask(Wire(), changed(ASKED, job_id="job_c"), changed(ASKED, request=8))
    await turns()
    assert all(isinstance(each, Failed) for each in wire.sent)
    own = desk.stored("acme", "evt_other", b"other")
    desk.put(replace(ours, payload_ref=own))
    failed = await desk.ask(Wire(), ASKED).failure()
    assert failed.permanent
    assert "belongs elsewhere" in failed.message


async def test_a_job_without_an_event_has_no_body() -> None:
    desk = LinkDesk()
    desk.leased()
    failed = await desk.ask(Wire(), ASKED).failure()
    assert (failed.permanent, failed.message) == (True, "job job_a has no such payload")


async def test_a_body_that_is_gone_is_a_permanent_failure() -> None:
    desk = LinkDesk()
    desk.with_body(b"old")
    desk.payloads.chunks.clear()
    failed = await desk.ask(Wire(), ASKED).failure()
    assert failed.permanent
    assert "is gone" in failed.message


async def test_the_body_of_an_erased_tenant_is_gone() -> None:
    desk = LinkDesk()
    desk.with_body(b"personal")
    desk.erase("acme")
    assert (await desk.ask(Wire(), ASKED).failure()).permanent


async def test_requests_about_a_partition_that_is_not_owned_are_dropped() -> None:
    desk = LinkDesk()
    desk.with_body(b"x")
    wire = desk.ask(Wire(), changed(ASKED, partition=PARTITION + 1))
    desk.jobs.closed(PARTITION)
    desk.ask(wire, changed(ASKED, request=8))
    await turns()
    assert wire.sent == []


async def test_a_partition_that_goes_away_drops_what_waits_and_ends_what_is_read() -> None:
    """What is being read was asked for with a living lease, so it may be sent."""
    desk = LinkDesk(in_all=20)
    desk.with_body(b"0123456789")
    desk.payloads.hangs = True
    wire = desk.ask(Wire(), ASKED, changed(ASKED, request=8))
    await turns()
    assert len(desk.payloads.waiting) == 1
    desk.jobs.closed(PARTITION)
    desk.payloads.answer()
    assert await wire.got(7) == b"0123456789"
    await turns()
    assert [piece for piece in wire.sent if piece.request == 8] == []  # type: ignore[union-attr]


async def test_a_lease_that_ends_while_its_request_waits_for_room_gets_nothing() -> None:
    desk = LinkDesk(in_all=20)
    job = desk.with_body(b"0123456789")
    desk.payloads.hangs = True
    wire = desk.ask(Wire(), ASKED, changed(ASKED, request=8))
    await turns()
    desk.put(replace(job, epoch=EPOCH + 1))
    desk.payloads.answer()
    assert await wire.got(7) == b"0123456789"
    assert (await wire.failure()).request == 8


async def test_a_connection_that_ends_ends_its_requests_and_frees_their_room() -> None:
    desk = LinkDesk(in_all=20)
    desk.with_body(b"0123456789")
    desk.payloads.hangs = True
    gone = desk.ask(Wire(), *(changed(ASKED, request=n) for n in range(50)))
    await turns()
    desk.answering.closed(gone)
    desk.payloads.hangs = False
    desk.payloads.answer()
    assert await desk.ask(Wire(), ASKED).got(7) == b"0123456789"
    assert gone.sent == []


async def test_asking_again_under_a_number_answers_the_later_request_alone() -> None:
    desk = LinkDesk()
    desk.with_body(b"body")
    desk.payloads.hangs = True
    wire = desk.ask(Wire(), ASKED)
    await turns()
    desk.ask(wire, ASKED)
    await turns()
    desk.payloads.answer()
    assert await wire.got(7) == b"body"
    await turns()
    assert len(wire.sent) == 1


async def test_a_thousand_requests_at_once_stay_within_the_memory() -> None:
    size = 100_000
    desk, body = LinkDesk(in_all=20 * size), some_bytes(size)
    desk.with_body(body)
    desk.payloads.hangs = True
    wire = desk.ask(Wire(), *(changed(ASKED, request=n) for n in range(1_000)))
    while not all(wire.has_body(n) for n in range(1_000)):
        await turns(5)
        desk.payloads.answer()
    assert wire.body(999) == body
    assert desk.payloads.most_at_once <= 2, "a connection has a quarter; a body counts twice"


async def test_more_requests_than_a_connection_may_have_are_refused_for_now() -> None:
    desk = LinkDesk()
    desk.with_body(b"x")
    desk.payloads.hangs = True
    wire = desk.ask(Wire(), *(changed(ASKED, request=n) for n in range(MOST_OPEN + 1)))
    failed = await wire.failure()
    assert (failed.request, failed.permanent) == (MOST_OPEN, False)
    other = desk.ask(Wire(), ASKED)
    await turns()
    desk.payloads.answer()
    assert await other.got(7) == b"x"


async def test_tenants_have_turns_when_the_memory_is_short() -> None:
    desk = LinkDesk(in_all=40)
    desk.with_body(b"a" * 10, "job_a", "acme")
    desk.with_body(b"b" * 10, "job_b", "beta")
    desk.payloads.hangs = True
    greedy = desk.ask(Wire(), *(changed(ASKED, request=n) for n in range(100)))
    await turns()
    modest = desk.ask(Wire(), changed(ASKED, job_id="job_b"))
    await turns()
    desk.payloads.answer()
    assert await modest.got(7) == b"b" * 10
    assert not all(greedy.has_body(n) for n in range(100))


async def test_a_worker_that_does_not_read_keeps_its_share_for_a_time_alone() -> None:
    desk = LinkDesk(in_all=20, sent_seconds=0.05)
    desk.with_body(b"0123456789")
    deaf = Wire()
    deaf.reads.clear()
    desk.ask(deaf, ASKED)
    await turns()
    other = desk.ask(Wire(), ASKED)
    assert await other.got(7) == b"0123456789"
    failed = await deaf.failure()
    assert (failed.permanent, "was not read" in failed.message) == (False, True)


async def test_each_piece_waits_for_room_of_its_own() -> None:
    """A hundred bodies that begin to be sent at once do not fill the buffer together."""
    desk = LinkDesk()
    desk.with_body(b"x")
    wire = Wire()
    wire.reads.clear()
    desk.ask(wire, *(changed(ASKED, request=n) for n in range(100)))
    await turns()
    original = wire.send

    def once(message: object) -> None:
        wire.reads.clear()
        original(message)  # type: ignore[arg-type]

    wire.send = once  # type: ignore[method-assign]
    for number in range(1, 4):
        wire.reads.set()
        await turns()
        assert len(wire.sent) == number


async def test_a_failure_of_our_own_is_told_without_its_details() -> None:
    desk = LinkDesk()
    job = desk.with_body(b"x")
    desk.leave(job, StepResult("odd", "event", value="[]"))
    failed = await desk.ask(Wire(), changed(ASKED, wait="odd")).failure()
    assert not failed.permanent
    assert "see its log" in failed.message
