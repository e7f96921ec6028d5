"""The scenario collides tenants in every id, and its order can be repeated."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from streams.demo.run.pipeline_run import OVERLAY
from streams.demo.run.script import split
from streams.demo.world.scenario import CAP, CAPPED_TENANT, LEAST_EVENTS, TENANTS, compose
from streams.serde.ids import partition_for
from streams.topology.load import load


def test_external_ids_and_vendor_event_ids_are_the_same_for_every_tenant() -> None:
    scenario = compose(90, 3, seed=1)
    ids = {
        tenant: {
            (t.external_id, t.vendor_event_id) for t in scenario.tickets if t.tenant_id == tenant
        }
        for tenant in TENANTS
    }
    assert ids[TENANTS[0]] == ids[TENANTS[1]] == ids[TENANTS[2]]
    assert len(ids[TENANTS[0]]) == 30


def test_every_ticket_is_delivered_so_often() -> None:
    scenario = compose(60, 3, seed=1)
    sent = Counter(ticket for volley in scenario.volleys for ticket in volley)
    assert set(sent) == set(scenario.tickets)
    assert set(sent.values()) == {3}
    assert scenario.deliveries == 180


def test_some_twins_are_sent_at_the_same_moment_and_some_are_not() -> None:
    sizes = Counter(len(volley) for volley in compose(60, 3, seed=1).volleys)
    assert sizes[3] > 0
    assert sizes[1] > 0


def test_more_tickets_of_the_capped_tenant_than_its_cap_come_first_and_at_once() -> None:
    rush = compose(LEAST_EVENTS, 2, seed=1).volleys[0]
    assert {ticket.tenant_id for ticket in rush} == {CAPPED_TENANT}
    assert len(set(rush)) > CAP


def test_a_seed_repeats_the_order() -> None:
    def order(seed: int) -> list[tuple[str, int]]:
        volleys = compose(60, 3, seed).volleys
        return [(t.tenant_id, t.number) for volley in volleys for t in volley]

    assert order(5) == order(5)
    assert order(5) != order(6)


@pytest.mark.parametrize("events", [LEAST_EVENTS, 1000])
def test_every_kind_of_ticket_is_there(events: int) -> None:
    tickets = compose(events, 3, seed=1).tickets
    assert sum(t.poison for t in tickets) == 1
    for tenant in TENANTS:
        own = [t for t in tickets if t.tenant_id == tenant]
        assert any(t.refund for t in own)
        assert any(t.flaky for t in own)
        assert any(t.refund and t.flaky for t in own)
        assert any(t.named not in (None, tenant) for t in own)


def test_a_body_that_names_another_tenant_still_carries_its_own_marker_alone() -> None:
    scenario = compose(30, 2, seed=1)
    ticket = next(t for t in scenario.tickets if t.named)
    body = orjson.loads(ticket.body())
    assert body["tenant_id"] == ticket.named
    assert body["type"] == "zen:event-type:ticket.created"
    text = ticket.body().decode()
    assert [t for t, marker in scenario.markers.items() if marker in text] == [ticket.tenant_id]


def test_redeliveries_are_the_same_bytes() -> None:
    ticket = compose(30, 2, seed=1).tickets[4]
    assert ticket.body() == ticket.body()


def test_tenants_lie_on_different_partitions() -> None:
    assert len({partition_for(tenant, 4) for tenant in TENANTS}) == 3


def test_the_overlay_declares_the_cap_that_is_judged() -> None:
    topology = load(OVERLAY)
    (limit,) = [each for each in topology.limits if each.match == CAPPED_TENANT]
    assert (limit.scope, limit.concurrency) == ("tenant", CAP)
    assert topology.partitions >= 4


def test_parts_are_all_volleys_in_order() -> None:
    volleys = compose(30, 2, seed=1).volleys
    parts = list(split(volleys, 7))
    assert len(parts) == 7
    assert tuple(volley for part in parts for volley in part) == volleys
