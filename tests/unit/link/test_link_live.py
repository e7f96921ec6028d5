"""What a run says is published for its living lease, as a worker would have written it itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed
from support.link_desk import EPOCH, PARTITION, PARTITIONS, RUN, WORKER, LinkDesk, Wire

from streams.errors import KafkaUnavailable, RecordTooLarge
from streams.link.answering import MOST_OPEN
from streams.link.bodies import SENT_SECONDS
from streams.link.flow import Bounds
from streams.link.grant import Grant
from streams.link.requests import Request
from streams.process.wall_clock import wall_ms
from streams.serde.codec import JOB_TYPES, LIVE, PROGRESS
from streams.serde.ids import partition_for
from streams.serde.link.messages import Announce, Done, Failed, Live, Progress
from streams.serde.records import AnnouncedType, JobTypes, LiveOutput
from streams.serde.records import Progress as ProgressRecord
from streams.serde.sizes import MAX_JOB_TYPES_BYTES, MAX_VALUE_BYTES

SAID = Live(1, PARTITION, "job_a", EPOCH, RUN, 1_700_000_000_000, "token", "draft", 3, "Dear ")
MADE = Progress(1, PARTITION, "job_a", EPOCH, RUN, 1_700_000_000_000, '{"done": 1}')
HOME = partition_for("acme", PARTITIONS)


def types(*names: str, schema: str | None = '{"type":"object"}') -> Announce:
    found = (AnnouncedType(name, 3, (1.0,), 60.0, None, schema, None) for name in names)
    return Announce(1, JobTypes("shop", "v1", tuple(found)))


async def done(desk: LinkDesk, request: Request, wire: Wire | None = None) -> None:
    (found,) = await desk.ask(wire or Wire(), request).answers(1)
    assert found == Done(1)


async def refused(desk: LinkDesk, request: Request, wire: Wire | None = None) -> Failed:
    found = await desk.ask(wire or Wire(), request).failure()
    assert desk.printed.records == []
    return found


async def test_text_and_progress_are_the_records_of_today() -> None:
    desk = LinkDesk()
    desk.leased()
    await done(desk, SAID)
    await done(desk, MADE)
    (topic, key, value, partition), progress = desk.printed.records
    at = 1_700_000_000_000
    assert (topic, key, partition) == ("jobs.live", b"job_a", HOME)
    said = LiveOutput("job_a", "acme", RUN, EPOCH, at, "token", "draft", 3, "Dear ")
    assert LIVE.decode(value or b"") == said
    assert progress[:2] == ("jobs.progress", b"job_a")
    assert progress[3] == HOME
    expected = ProgressRecord("job_a", "acme", RUN, at, '{"done": 1}')
    assert PROGRESS.decode(progress[2] or b"") == expected


async def test_job_types_are_announced_under_their_application() -> None:
    desk = LinkDesk()
    await done(desk, types("refund"))
    ((topic, key, value, partition),) = desk.printed.records
    assert (topic, key, partition) == ("jobs.types", b"shop", partition_for("shop", PARTITIONS))
    assert JOB_TYPES.decode(value or b"") == types("refund").types


async def test_the_answer_comes_once_the_broker_has_the_record() -> None:
    desk = LinkDesk()
    desk.leased()
    desk.printed.runs.clear()
    wire = desk.ask(Wire(), SAID)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(desk.printed.records), wire.sent) == (1, [])
    desk.printed.runs.set()
    assert await wire.answers(1) == [Done(1)]


async def test_records_of_one_connection_keep_their_order() -> None:
    desk = LinkDesk()
    desk.leased()
    said = [changed(SAID, request=n, n=n) for n in range(200)]
    await desk.ask(Wire(), *said).answers(200)
    numbers = [LIVE.decode(value or b"").n for _, _, value, _ in desk.printed.records]
    assert numbers == list(range(200))


@pytest.mark.parametrize("request_", [SAID, MADE])
@pytest.mark.parametrize(
    ("worker", "changes"),
    [
        ("worker_b:1", {}),
        (WORKER, {"epoch": EPOCH - 1}),
        (WORKER, {"job_id": "job_b"}),
        (WORKER, {"run_id": "run_0"}),
    ],
    ids=["another worker", "an old epoch", "another job", "another run"],
)
async def test_nobody_else_says_anything_for_a_run(
    request_: Live | Progress, worker: str, changes: dict[str, Any]
) -> None:
    desk = LinkDesk()
    desk.leased()
    desk.leased("job_b", worker_id="worker_b:1")
    await refused(desk, changed(request_, **changes), Wire(worker))


async def test_a_token_of_another_tenant_or_type_says_nothing() -> None:
    desk = LinkDesk()
    desk.leased()
    for grant in (Grant("t", "t", tenants=frozenset({"b"})), Grant("t", "t", job_types=("x",))):
        await refused(desk, SAID, Wire(grant=grant))


@pytest.mark.parametrize("request_", [SAID, MADE])
async def test_nothing_of_an_erased_tenant_is_published(request_: Request) -> None:
    desk = LinkDesk()
    desk.leased()
    desk.erase("acme")
    assert (await refused(desk, request_)).permanent


async def test_what_is_said_is_never_from_the_future() -> None:
    desk = LinkDesk()
    desk.leased()
    before = wall_ms()
    await done(desk, changed(SAID, at=2**62))
    at = LIVE.decode(desk.printed.records[0][2] or b"").at
    assert before <= at <= wall_ms()


@pytest.mark.parametrize(
    "request_",
    [
        changed(SAID, text="x" * 2 * MAX_VALUE_BYTES),
        changed(SAID, step="x" * 2 * MAX_VALUE_BYTES),
        changed(SAID, n=2**70),
        changed(SAID, at=-(2**70)),
        changed(MADE, value='"' + "x" * 2 * MAX_VALUE_BYTES + '"'),
        types("refund", schema="x" * MAX_JOB_TYPES_BYTES),
        types("refund", schema="no json"),
    ],
    ids=["text", "step", "number", "time", "progress", "schemas", "schema"],
)
async def test_what_cannot_be_a_record_is_a_permanent_failure(request_: Request) -> None:
    desk = LinkDesk()
    desk.leased()
    assert (await refused(desk, request_)).permanent


async def test_a_worker_announces_the_types_of_its_token_alone() -> None:
    desk = LinkDesk()
    grant = Grant("t", "t", job_types=("refund.*",), tenants=frozenset({"acme"}))
    assert (await refused(desk, types("refund.card", "mail"), Wire(grant=grant))).permanent
    of_some = Grant("t", "t", tenants=frozenset({"acme"}))
    assert "names its job types" in (await refused(desk, types("a"), Wire(grant=of_some))).message
    await done(desk, types("refund.card"), Wire(grant=grant))


async def test_a_limited_token_replaces_no_announcement_of_others() -> None:
    """An announcement replaces the one before it: with no types, it takes all of them away."""
    desk = LinkDesk()
    of_some = Wire(grant=Grant("t", "t", tenants=frozenset({"acme"})))
    assert (await refused(desk, types(), of_some)).permanent
    limited = Wire(grant=Grant("t", "t", job_types=("refund.*", "mail")))
    await done(desk, types("mail"), limited)
    ((_, key, value, partition),) = desk.printed.records
    app = "shop (mail, refund.*)"
    assert (key, partition) == (app.encode(), partition_for(app, PARTITIONS))
    assert JOB_TYPES.decode(value or b"").app == app


@pytest.mark.parametrize("name", ["", "refund\nmail", "x" * 256, "\x1b[2J"])
async def test_a_name_that_people_cannot_read_is_not_announced(name: str) -> None:
    desk = LinkDesk()
    assert (await refused(desk, types(name))).permanent
    said = types("mail")
    odd = changed(said, types=replace(said.types, app=name))
    assert (await refused(desk, odd)).permanent
    assert desk.printed.records == []


async def test_a_limited_token_announces_no_types_of_other_pools() -> None:
    grant = Grant("t", "agents", pools=("gpu",))
    assert "pool default" in (await refused(LinkDesk(), types("mail"), Wire(grant=grant))).message
    desk = LinkDesk()
    await done(desk, types(), Wire(grant=grant))
    ((_, key, _, _),) = desk.printed.records
    assert key == b"shop (pool gpu)"


@pytest.mark.parametrize(
    ("error", "permanent"), [(KafkaUnavailable("no"), False), (RecordTooLarge("no"), True)]
)
async def test_a_record_that_is_not_acknowledged_is_a_failure(
    error: Exception, permanent: bool
) -> None:
    desk = LinkDesk()
    desk.leased()
    desk.printed.error = error
    assert (await refused(desk, SAID)).permanent == permanent


async def test_a_connection_publishes_at_its_rate_and_others_do_not_notice() -> None:
    desk = LinkDesk(bounds=Bounds(records_a_second=10, records_at_once=20))
    desk.leased()
    wire = desk.ask(Wire(), *(changed(SAID, request=n) for n in range(30)))
    answers = await wire.answers(30)
    late = [each for each in answers if isinstance(each, Failed)]
    assert (len(late), any(each.permanent for each in late)) == (10, False)
    await done(desk, SAID)
    desk.seconds += 1.0
    again = desk.ask(Wire(), *(changed(SAID, request=n) for n in range(3)))
    assert len(await again.answers(3)) == 3
    desk.ask(wire, *(changed(SAID, request=n) for n in range(15)))
    late = [each for each in await wire.answers(45) if isinstance(each, Failed)]
    assert len(late) == 15


async def test_what_waits_for_the_broker_is_bounded_by_connection() -> None:
    desk = LinkDesk(bounds=Bounds(unsent_bytes=100_000))
    desk.leased()
    desk.printed.runs.clear()
    large = changed(SAID, text="x" * 30_000)
    wire = desk.ask(Wire(), *(changed(large, request=n) for n in range(10)))
    assert [each.request for each in await wire.answers(7)] == [3, 4, 5, 6, 7, 8, 9]
    desk.printed.runs.set()
    assert len(await wire.answers(10)) == 10
    assert (await desk.ask(wire, large).answers(11))[-1] == Done(1)


async def test_a_connection_that_ends_is_forgotten() -> None:
    desk = LinkDesk()
    desk.leased()
    desk.printed.runs.clear()
    wire = desk.ask(Wire(), SAID)
    await asyncio.sleep(0)
    desk.answering.closed(wire)
    desk.printed.runs.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert wire.sent == []


def test_the_page_of_the_link_has_the_figures_of_the_code() -> None:
    page = (Path(__file__).parents[3] / "docs/link.md").read_text().replace("\n", " ")
    bounds = Bounds()
    assert (MOST_OPEN, bounds.records_a_second, bounds.bytes_a_second) == (2_000, 2_000, 4 << 20)
    assert "takes 2,000 open requests of a connection" in page
    assert "2,000 records and 4 MiB a second" in page
    assert f"Read a body within {SENT_SECONDS:g} s" in page
