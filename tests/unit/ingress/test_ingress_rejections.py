"""What is refused is counted by what is known of it, and written in bounds."""

from __future__ import annotations

from support.ingress_app import running
from support.webhooks import MemoryLog, signed, source, zendesk_signed

from ingress.receive.problems import BAD_REQUEST
from ingress.receive.rejections import Rejections
from streams.serde import ids
from streams.serde.codec import REJECTION
from streams.serde.records import Rejection


def written(log: MemoryLog) -> dict[tuple[str | None, str | None, str], int]:
    found: dict[tuple[str | None, str | None, str], int] = {}
    for each in records(log):
        key = each.tenant_id, each.source, each.reason
        found[key] = found.get(key, 0) + each.count
    return found


def records(log: MemoryLog) -> list[Rejection]:
    return [REJECTION.decode(each.value) for each in log.on("rejections")]


async def test_refusals_are_one_record_a_kind_without_the_names_that_senders_invent() -> None:
    async with running() as edge:
        edge.sources.table.apply(*source("acme", "shop", "hmac-sha256", max_body_bytes=50))
        wrong = signed(b"{}", b"wrong")
        for _ in range(3):
            await edge.post("/v1/hooks/acme/shop", b"{}", wrong)
        await edge.post("/v1/hooks/acme/invented", b"{}", wrong)
        for number in range(20):
            await edge.post(f"/v1/hooks/invented-{number}/shop", b"hunter2", wrong)
        await edge.post("/v1/hooks/acme/shop", b"x" * 51, wrong)
        await edge.post("/v1/hooks/acme/zendesk", b'{"id":"e1"}', zendesk_signed(b'{"id":"e1"}'))
        assert edge.log.on("rejections") == []
        await edge.rejections.flush()
        assert written(edge.log) == {
            ("acme", "shop", "unauthorized"): 3,
            ("acme", None, "unauthorized"): 1,
            (None, None, "unauthorized"): 20,
            ("acme", "shop", "too-large"): 1,
        }
        assert {r.partition for r in edge.log.on("rejections") if b"acme" in (r.value or b"")} == {
            ids.partition_for("acme", 4)
        }
        raw = b"".join(r.value or b"" for r in edge.log.on("rejections"))
        assert not any(text in raw for text in (b"invented", b"hunter2"))


async def test_a_record_says_how_often_and_from_when_to_when() -> None:
    log = MemoryLog()
    rejections = Rejections(log, lambda tenant, source: (tenant, source), 4)
    for _ in range(5):
        rejections.note("acme", "shop", "too-large")
    await rejections.flush()
    rejections.note("acme", "shop", "too-large")
    await rejections.flush()
    await rejections.flush()
    first, second = records(log)
    assert (first.count, second.count) == (5, 1)
    assert first.first_at <= first.last_at <= second.first_at == second.last_at
    assert first.id != second.id


async def test_what_kafka_did_not_take_is_counted_on() -> None:
    log = MemoryLog(down=True)
    rejections = Rejections(log, lambda tenant, source: (tenant, source), 4)
    rejections.note("acme", "shop", "unavailable")
    await rejections.flush()
    rejections.note("acme", "shop", "unavailable")
    log.down = False
    await rejections.flush()
    assert written(log) == {("acme", "shop", "unavailable"): 2}


async def test_beyond_the_bound_only_the_reason_is_kept() -> None:
    log = MemoryLog()
    rejections = Rejections(log, lambda tenant, source: (tenant, source), 4, max_entries=3)
    for number in range(10):
        rejections.note(f"t{number}", "shop", "unauthorized")
    await rejections.flush()
    counts = written(log)
    assert len(counts) == 4
    assert counts[None, None, "unauthorized"] == 7


async def test_a_request_that_cannot_be_parsed_is_counted_of_nobody() -> None:
    async with running() as edge:
        edge.router.unread(BAD_REQUEST)
        await edge.rejections.flush()
        assert written(edge.log) == {(None, None, "malformed-request"): 1}
