"""What is refused is counted by what is known of it and by its cause, and written in bounds."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from multidict import CIMultiDict
from support.ingress_app import Edge, running
from support.webhooks import SECRET, MemoryLog, signed, source, tenant, zendesk_signed

from ingress.receive.problems import BAD_REQUEST
from ingress.receive.rejections import Rejections
from streams.serde import ids
from streams.serde.codec import REJECTION, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import Rejection, TenantRecord


def written(log: MemoryLog) -> dict[tuple[str | None, str | None, str], int]:
    found: dict[tuple[str | None, str | None, str], int] = {}
    for each in records(log):
        key = each.tenant_id, each.source, each.reason
        found[key] = found.get(key, 0) + each.count
    return found


def causes(log: MemoryLog) -> dict[tuple[str | None, str | None, str | None], int]:
    """How many deliveries were refused as unauthorized, by tenant, source and cause."""
    refused = [each for each in records(log) if each.reason == "unauthorized"]
    return {(each.tenant_id, each.source, each.cause): each.count for each in refused}


def disabled(tenant_id: str, name: str) -> tuple[bytes, bytes]:
    key, value = source(tenant_id, name, "hmac-sha256")
    return key, TENANT.encode(replace(TENANT.decode(value), disabled=True))


def erasure(tenant_id: str) -> tuple[bytes, bytes]:
    record = TenantRecord(tenant_id, "erasure", "", True, "{}")
    return tenant_key(tenant_id, "erasure", ""), TENANT.encode(record)


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


BODY = b'{"id":"e1"}'
Headers = Mapping[str, str]


def zendesk_at(stamp: str) -> dict[str, str]:
    """Rightly signed headers with another time than now, or none."""
    mac = base64.b64encode(hmac.digest(SECRET, stamp.encode() + BODY, "sha256")).decode()
    return {
        "X-Zendesk-Webhook-Signature": mac,
        "X-Zendesk-Webhook-Signature-Timestamp": stamp,
    }


OF_A_SOURCE: dict[str, tuple[str, Headers]] = {
    "mismatch": ("shop", signed(BODY, b"wrong")),
    "missing_header": ("shop", {}),
    "stale": ("zendesk", zendesk_at("2020-01-01T00:00:00Z")),
    "bad_timestamp": ("zendesk", zendesk_at("yesterday")),
    "unresolved_secret": ("unmounted", signed(BODY)),
    "no_secret": ("ended", signed(BODY)),
    "disabled_source": ("off", signed(BODY)),
}


@pytest.fixture
async def known(edge: Edge) -> Edge:
    """An ingress that knows sources and tenants in each state that refuses a delivery."""
    table = edge.sources.table
    table.apply(*disabled("acme", "off"))
    key, value = source("acme", "ended", "hmac-sha256")
    record = TENANT.decode(value)
    ended = tuple(replace(each, until=1) for each in record.keys)
    table.apply(key, TENANT.encode(replace(record, keys=ended)))
    table.apply(*tenant("empty"))
    table.apply(*source("erased", "shop", "hmac-sha256"))
    table.apply(*erasure("erased"))
    return edge


@pytest.mark.parametrize("cause", OF_A_SOURCE)
async def test_a_rejection_names_the_cause_that_its_sender_is_not_told(
    known: Edge, cause: str
) -> None:
    name, headers = OF_A_SOURCE[cause]
    assert (await known.post(f"/v1/hooks/acme/{name}", BODY, headers))[0] == 401
    await known.rejections.flush()
    assert causes(known.log) == {("acme", name, cause): 1}


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("nobody/shop", (None, None, "unknown_tenant")),
        ("acme/invented", ("acme", None, "unknown_source")),
        ("empty/shop", ("empty", None, "unknown_source")),
        ("gone/shop", ("gone", None, "disabled_tenant")),
        ("erased/shop", (None, None, "erased_tenant")),
    ],
)
async def test_a_path_without_a_usable_source_is_its_own_cause(
    known: Edge, path: str, named: tuple[str | None, str | None, str]
) -> None:
    for headers in (signed(BODY), {}):
        assert (await known.post(f"/v1/hooks/{path}", BODY, headers))[0] == 401
    await known.rejections.flush()
    assert causes(known.log) == {named: 2}


async def test_every_cause_of_a_401_has_one_answer_to_the_byte(known: Edge) -> None:
    """A stranger who compares whole answers and varies all that he sends finds no difference."""
    twice = CIMultiDict([*signed(BODY).items(), *signed(BODY, b"wrong").items()])
    paths = [f"acme/{name}" for name, _ in OF_A_SOURCE.values()]
    paths += ["acme/slack", "bolt/zendesk", "bolt/off", "nobody/shop", "gone/shop", "empty/shop"]
    paths += ["erased/shop", "acme/invented", "acme/SHOP", "ac%6De/shop", "acme/shop%00"]
    sent: list[Headers] = [{}, signed(BODY, b"wrong"), twice, zendesk_at("yesterday")]
    answers = {await raw_answer(known, path, headers) for path in paths for headers in sent}
    assert len(answers) == 1
    [(status, head, body)] = answers
    assert (status, b"cause" in body, b"unauthorized" in body) == (401, False, True)
    assert {name for name, _ in head} == {
        "Content-Length",
        "Content-Type",
        "Date",
        "Server",
        "WWW-Authenticate",
    }


async def raw_answer(
    edge: Edge, path: str, headers: Headers
) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    """The status, every header in its order (the date without its value), and the bytes."""
    where = f"{edge.url}/v1/hooks/{path}"
    async with edge.client.post(where, data=BODY, headers=headers) as answer:
        head = [(k, "" if k == "Date" else v) for k, v in answer.headers.items()]
        return answer.status, tuple(head), await answer.read()


async def test_a_tenants_rejections_are_counted_for_no_other_with_the_same_source(
    edge: Edge,
) -> None:
    await edge.post("/v1/hooks/acme/shop", BODY, signed(BODY, b"wrong"))
    naming = {"X-Tenant-Id": "bolt", "Host": "bolt.example.com", "X-Forwarded-Host": "bolt"}
    await edge.post("/v1/hooks/acme/shop", b'{"tenant_id":"bolt"}', {**signed(BODY), **naming})
    await edge.post("/v1/hooks/bolt/shop", BODY, {})
    await edge.rejections.flush()
    assert causes(edge.log) == {
        ("acme", "shop", "mismatch"): 2,
        ("bolt", "shop", "missing_header"): 1,
    }


async def test_a_prober_of_names_grows_one_entry(edge: Edge) -> None:
    for number in range(50):
        await edge.post(f"/v1/hooks/n{number}/s{number}", BODY, signed(BODY))
        await edge.post(f"/v1/hooks/acme/s{number}", BODY, signed(BODY))
    await edge.rejections.flush()
    assert causes(edge.log) == {
        (None, None, "unknown_tenant"): 50,
        ("acme", None, "unknown_source"): 50,
    }


async def test_other_refusals_have_no_cause_beside_their_reason(edge: Edge) -> None:
    await edge.post("/v1/hooks/acme/shop", b"x" * (1 << 20) + b"x", signed(BODY))
    await edge.rejections.flush()
    assert [(each.reason, each.cause) for each in records(edge.log)] == [("too-large", None)]


async def test_a_refusal_takes_the_same_steps_whatever_its_cause(
    known: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cause may cost a look-up that another does not: the number of steps is compared."""
    steps: list[str] = []
    for name in ("lookup", "why_closed"):
        asked = getattr(known.sources.table, name)

        def counted(*given: str, name: str = name, asked: Any = asked) -> Any:
            steps.append(name)
            return asked(*given)

        monkeypatch.setattr(known.sources.table, name, counted)
    taken = set()
    for path in ("acme/shop", "acme/unmounted", "acme/off", "acme/nothing", "no/shop", "gone/shop"):
        steps.clear()
        await known.post(f"/v1/hooks/{path}", BODY, {})
        taken.add(tuple(steps))
    assert len(taken) == 1
