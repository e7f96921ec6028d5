from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import app

from streams.testing import Bench

TOPOLOGY = Path(__file__).with_name("desk.yaml")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY) as bench:
        bench.fake("crm:update", returns={})
        bench.fake("warehouse:load", returns={})
        yield bench


def test_a_busy_ticket_is_summarized_once(bench: Bench) -> None:
    updates = []
    for number in range(3):
        updates.append(bench.event("ticket.updated", {"text": f"{number}"}, subject="t7"))
        bench.advance(4)
    newest = updates[-1].run()
    assert (newest.status, len(newest.event_ids)) == ("succeeded", 3)
    assert [call.args["text"] for call in bench.calls] == ["2"]
    assert [job.status for job in updates[:2]] == ["cancelled", "cancelled"]
    assert updates[0].superseded_by == updates[1].id


def test_orders_are_loaded_together(bench: Bench) -> None:
    orders = [bench.event("order.paid", {"order": number}) for number in range(7)]
    assert orders[0].run().result == 7
    (call,) = bench.calls
    assert call.args["orders"] == [{"order": number} for number in range(7)]
    assert {job.superseded_by for job in orders[1:]} == {orders[0].id}


def test_an_account_is_synchronized_by_one_job_at_a_time(bench: Bench) -> None:
    first = bench.event("account.changed", {"name": "a"}, subject="acct").pause_in("crm:update")
    second = bench.event("account.changed", {"name": "b"}, subject="acct")
    third = bench.event("account.changed", {"name": "c"}, subject="acct")
    assert (second.status, third.status) == ("cancelled", "scheduled")
    assert first.run().status == "succeeded"
    assert third.run().status == "succeeded"
    assert [call.args["text"] for call in bench.calls] == ["a", "c"]
