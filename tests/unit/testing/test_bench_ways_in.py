"""Events and submissions come in as they do in production, and routes decide where they should."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.bench_apps import app_of

from streams import Context
from streams.errors import ConfigError
from streams.testing import Bench, Job, Refused

ROUTES = """
routes:
  - match: {source: "shop", event_type: "order.*"}
    job: refund
job_types:
  - {name: refund, pool: slow, max_attempts: 1}
pools: [{name: slow}]
"""


async def echo(ctx: Context) -> dict[str, Any]:
    event = ctx.event
    if event is None:
        return {"input": ctx.input, "tenant": ctx.tenant_id}
    return {
        "payload": (await ctx.payload()).decode(),
        "type": event.event_type,
        "key": event.dedup_key,
        "source": event.source,
        "subject": event.subject,
        "attributes": event.attributes,
        "occurred_at": event.occurred_at,
        "tenant": ctx.tenant_id,
    }


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app_of(echo)) as bench:
        yield bench


@pytest.fixture
def routed(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / "desk.yaml").write_text(ROUTES)
    with Bench(app_of(echo, "refund"), topology=tmp_path / "desk.yaml") as bench:
        yield bench


def test_an_event_is_what_the_handler_sees(bench: Bench) -> None:
    job = bench.event(
        "order.cancelled",
        {"b": 1, "a": None},
        source="shop",
        key="k1",
        subject="o-1",
        occurred_at=datetime(2026, 11, 23, 20, tzinfo=UTC),
        attributes={"status": "OPEN"},
        tenant="globex",
    ).run()
    assert job.result == {
        "payload": '{"a":null,"b":1}',
        "type": "order.cancelled",
        "key": "k1",
        "source": "shop",
        "subject": "o-1",
        "attributes": {"status": "OPEN"},
        "occurred_at": 1795464000000,
        "tenant": "globex",
    }


def test_bytes_are_the_body_as_they_are(bench: Bench) -> None:
    job = bench.event("x", b"<xml/>").run()
    assert job.result["payload"] == "<xml/>"
    assert job.result["key"].startswith("sha256:")


def test_a_form_that_carries_json_is_read_as_its_document() -> None:
    async def document(ctx: Context) -> Any:
        return await ctx.json()

    with Bench(app_of(document)) as bench:
        assert bench.event("push", b"payload=%7B%22a%22%3A1%7D").run().result == {"a": 1}
        assert bench.event("push", {"a": 1}).run().result == {"a": 1}
        failed = bench.event("push", b"<xml/>").run()
        assert (failed.status, "holds no JSON" in (failed.error or "")) == ("failed", True)


def test_a_body_of_many_parts_is_put_together(bench: Bench) -> None:
    job = bench.event("x", b"x" * 150_000 + b"y" * 100_000).run()
    assert job.result["payload"].count("y") == 100_000
    small = app_of(size)
    with Bench(small) as large:
        assert large.event("x", b"x" * 1_300_000).run().result == 1_300_000


async def size(ctx: Context) -> int:
    return len(await ctx.payload())


def test_an_input_is_what_the_handler_sees(bench: Bench) -> None:
    assert bench.submit("job", [1, {"a": "b"}], tenant="globex").run().result == {
        "input": [1, {"a": "b"}],
        "tenant": "globex",
    }
    assert bench.submit("job").run().result["input"] == {}


def test_the_same_event_again_is_the_same_job(bench: Bench) -> None:
    job = bench.event("x", {"n": 1}, key="k1").run()
    assert bench.event("x", {"n": 2}, key="k1") == job
    assert job.run().record.incarnation == 1
    assert bench.event("x", {"n": 1}, key="k1", source="other") != job
    bench.advance(8 * 86_400)
    again = bench.event("x", {"n": 1}, key="k1").run()
    assert (again.id, again.record.incarnation) == (job.id, 2)


def test_the_same_submission_again_is_the_same_job(bench: Bench) -> None:
    assert bench.submit("job", {}, key="k") == bench.submit("job", {}, key="k")
    assert bench.submit("job", {}) != bench.submit("job", {})


def test_a_delayed_submission_waits(bench: Bench) -> None:
    job = bench.submit("job", {}, delay_seconds=3_600)
    assert job.status == "scheduled"
    bench.advance(3_599)
    assert job.status == "scheduled"
    bench.advance(2)
    assert job.status == "succeeded"


def test_routes_of_a_topology_decide(routed: Bench) -> None:
    job = routed.event("order.cancelled", {}, source="shop").run()
    assert (job.status, job.record.type, job.record.pool) == ("succeeded", "refund", "slow")
    assert job.record.max_attempts == 1


CANCELS = """
routes:
  - match: {source: desk, event_type: ticket.created}
    job: follow_up
  - match: {source: desk, event_type: ticket.solved}
    cancels: {job: follow_up, by: subject}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Bench]:
    async def follow_up(ctx: Context) -> None:
        await ctx.step("wait", asyncio.sleep, 100)
        await ctx.effect("email:send", send, key="reminder")

    async def send(idempotency_key: str) -> None:
        raise AssertionError("the fake is called instead")

    (tmp_path / "desk.yaml").write_text(CANCELS)
    with Bench(app_of(follow_up, "follow_up"), topology=tmp_path / "desk.yaml") as bench:
        bench.fake("email:send", returns=None)
        yield bench


def ticket(desk: Bench, event_type: str, subject: str) -> Job | None:
    body = {"id": subject, "what": event_type}
    return desk.deliver(f"ticket.{event_type}", body, source="desk", subject=subject)


def test_an_event_ends_what_waits_and_what_runs_for_its_subject(desk: Bench) -> None:
    running, other = ticket(desk, "created", "t1"), ticket(desk, "created", "t2")
    assert running is not None
    assert other is not None
    desk.advance(60)
    assert running.status == "running"
    assert ticket(desk, "solved", "t1") is None, "its route only cancels"
    assert (running.status, other.status) == ("cancelled", "running")
    assert (running.error or "").startswith("Cancelled: event ticket.solved evt_")
    later = desk.event("ticket.created", {"n": 2}, source="desk", subject="t1")
    ticket(desk, "solved", "t2")
    assert later.run().status == "succeeded", "it came after its subject's event"
    assert [call.job_id for call in desk.calls] == [later.id]


def test_an_event_whose_route_only_cancels_has_no_job_to_return(desk: Bench) -> None:
    with pytest.raises(ConfigError, match=r"deliver\(\) is for events without a job"):
        desk.event("ticket.solved", {}, source="desk", subject="t1")


def test_an_event_without_a_route_is_told_with_the_routes(routed: Bench) -> None:
    with pytest.raises(ConfigError, match=r"shop/invoice\.paid a job: .* match shop/order\.\*"):
        routed.event("invoice.paid", {}, source="shop")


def test_a_job_type_is_named_where_no_route_does_and_only_there(routed: Bench) -> None:
    with pytest.raises(ConfigError, match="leave job='refund' out"):
        routed.event("order.cancelled", {}, source="shop", job="refund")
    app = app_of(echo, "a")
    app.job("b")(echo)
    with Bench(app) as bench:
        with pytest.raises(ConfigError, match="name its job type with job="):
            bench.event("x", {})
        assert bench.event("x", {}, job="b").run().record.type == "b"
        with pytest.raises(ConfigError, match=r"no job type 'c'; its types: a, b"):
            bench.event("x", {}, job="c")
        with pytest.raises(ConfigError, match="no job type 'c'"):
            bench.submit("c")


@pytest.mark.parametrize(
    ("given", "reason"),
    [({"payload": {1, 2}}, "not_json"), ({"source": "no blanks"}, "invalid-request")],
)
def test_what_the_api_would_refuse_is_refused(
    bench: Bench, given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused) as refusal:
        bench.event("x", **given)
    assert refusal.value.reason == reason


def test_a_submission_that_the_api_would_refuse_is_refused(bench: Bench) -> None:
    with pytest.raises(Refused, match="delay_seconds"):
        bench.submit("job", {}, delay_seconds=40 * 86_400)
    with pytest.raises(Refused, match="body-too-large"):
        bench.submit("job", {"text": "x" * 300_000})


def test_a_topology_that_is_wrong_is_told_when_the_bench_is_made(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("routes: 7")
    with pytest.raises(ConfigError, match=r"t\.yaml:1"):
        Bench(app_of(echo), topology=tmp_path / "t.yaml")
    with pytest.raises(ConfigError):
        Bench(app_of(echo), topology=tmp_path / "missing.yaml")


def test_an_effect_that_could_not_be_called_is_told_when_the_bench_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_of(calls_later)
    monkeypatch.setitem(globals(), "defined_later", keyless)
    with pytest.raises(ConfigError, match="give defined_later a"):
        Bench(app)


async def calls_later(ctx: Context) -> None:
    await ctx.effect("plain", defined_later, key="1")  # type: ignore[name-defined]  # noqa: F821


def keyless() -> None:
    """A tool's function that takes no key."""


def test_the_payload_is_sealed_on_its_topic(bench: Bench) -> None:
    bench.event("x", {"secret": "s3cret"}).run()
    stored = [record.value or b"" for record in bench._behind.pipeline.output("payloads")]
    assert stored
    assert not any(b"s3cret" in value for value in stored)
    assert orjson.dumps("s3cret") not in b"".join(stored)


def test_a_submission_has_the_priority_that_it_names(bench: Bench) -> None:
    assert bench.submit("job", priority="batch").record.priority == "batch"
    with pytest.raises(Refused, match="priority"):
        bench.submit("job", priority="soon")


@pytest.mark.parametrize("comes_by", ["event", "submission"])
def test_a_tenant_that_a_call_names_has_its_schedules(comes_by: str) -> None:
    app = app_of(echo)
    app.schedule(every_seconds=60, job="job")
    with Bench(app) as bench:
        if comes_by == "event":
            bench.deliver("hello", source="test", tenant="globex")
        else:
            bench.submit("job", tenant="globex")
        bench.advance(120)
        counts = [len(bench.scheduled("job", tenant=tenant)) for tenant in ("acme", "globex")]
        assert counts == [2, 2]
