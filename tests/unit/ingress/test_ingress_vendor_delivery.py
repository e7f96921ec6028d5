"""A test that the operator delivers meets what a vendor's delivery would meet."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest
from support.webhooks import SECRET, VAULT, MemoryLog, source, topology

from ingress.receive.admission import DirectAdmission
from ingress.samples import sample
from ingress.schemes import SCHEMES, SignedRequest, sign
from streams.event_admission import Taken
from streams.limits.backlog import Depth, Line
from streams.serde import ids
from streams.serde.codec import ENVELOPE, QUARANTINED, TENANT
from streams.serde.records import TenantRecord
from streams.topology.model import Route

URL = "https://ingress.invalid/v1/hooks/acme/shop"
EVENT = ids.tested_event_id("cmd_1")
SECRETS = {"standard-webhooks": b"whsec_" + b"A" * 32, "close": b"ab" * 32}


def never_full(tenant_id: str, type_: str) -> Depth | None:
    return None


def record(scheme: str = "zendesk", **settings: Any) -> TenantRecord:
    secrets = (SECRETS.get(scheme, SECRET),)
    return TENANT.decode(source("acme", "shop", scheme, secrets, **settings)[1])


def delivery(scheme: str = "zendesk", secret: bytes | None = None, **options: Any) -> SignedRequest:
    now = time.time()
    made = sample(scheme, None, now, UUID(EVENT.removeprefix("evt_")))
    request = SignedRequest(made.headers, made.body, URL, "POST", now)
    return sign(scheme, secret or SECRETS.get(scheme, SECRET), request, options)


class Door:
    """The operator's way in, over a log in memory."""

    def __init__(self, *routes: Route) -> None:
        self.log = MemoryLog()
        self.made = DirectAdmission(self.log, VAULT, self.log.book, topology(*routes))

    async def take(self, kept: TenantRecord, sent: SignedRequest, full: Any = never_full) -> Taken:
        return await self.made.deliver(kept, sent, EVENT, full)


@pytest.mark.parametrize("scheme", [n for n, s in SCHEMES.items() if not s.public_key])
async def test_a_sample_of_each_scheme_is_accepted_as_an_event(scheme: str) -> None:
    door = Door(Route("shop", "*", "draft_reply", "webhook"))
    taken = await door.take(record(scheme), delivery(scheme))
    assert (taken.outcome, taken.event_id, taken.routed) == ("accepted", EVENT, True), taken
    kept = ENVELOPE.decode(door.log.on("events.received")[0].value)
    assert (kept.event_id, kept.event_type) == (EVENT, taken.event_type)
    assert taken.job_id == ids.event_job_id("acme", "shop", kept.dedup_key)


async def test_a_repetition_of_a_test_is_the_same_event() -> None:
    door = Door()
    first = await door.take(record(), delivery())
    second = await door.take(record(), delivery())
    assert (first.outcome, second.outcome) == ("accepted", "duplicate")
    assert first.event_id == second.event_id
    assert len(door.log.on("events.received")) == 1


async def test_a_signature_of_another_secret_is_refused_with_the_cause_of_a_401() -> None:
    door = Door()
    taken = await door.take(
        record(), delivery(secret=b"that of somebody else, and not the source's")
    )
    assert (taken.outcome, taken.reason, taken.cause) == ("refused", "unauthorized", "mismatch")
    assert (taken.event_id, door.log.on("events.received")) == (None, [])


async def test_settings_of_which_an_ingress_makes_no_source_are_refused_as_there() -> None:
    taken = await Door().take(record(mapping={"event_type": "[["}), delivery())
    assert (taken.reason, taken.cause) == ("unauthorized", "unusable_source")


async def test_a_body_that_the_mapping_does_not_fit_goes_to_the_quarantine() -> None:
    door = Door()
    taken = await door.take(record(mapping={"event_type": "no.such.field"}), delivery())
    assert (taken.outcome, taken.reason, taken.job_id) == ("quarantined", "event_type", None)
    assert "no.such.field" in (taken.detail or "")
    kept = QUARANTINED.decode(door.log.on("quarantine")[0].value)
    assert kept.event_id == taken.event_id
    assert door.log.on("events.received") == []


async def test_an_event_that_no_route_matches_is_accepted_and_says_so() -> None:
    taken = await Door(Route("other", "*", "x", "webhook")).take(record(), delivery())
    assert (taken.outcome, taken.job_id, taken.routed) == ("accepted", None, False)


async def test_a_body_larger_than_the_source_takes_and_a_full_backlog_are_refused() -> None:
    large = await Door().take(record(max_body_bytes=10), delivery())
    assert (large.outcome, large.reason) == ("refused", "too-large")

    def full(tenant_id: str, type_: str) -> Depth:
        return Depth(Line("tenant", tenant_id), 5, 5)

    door = Door(Route("shop", "*", "draft_reply", "webhook"))
    late = await door.take(record(), delivery(), full)
    assert (late.outcome, late.reason, late.cause) == ("refused", "backlog-full", "tenant")
    assert door.log.records == []
