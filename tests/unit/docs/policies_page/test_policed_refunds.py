from collections.abc import Iterator
from pathlib import Path

import pytest
from policed_refunds import app

from streams.testing import Bench

TOPOLOGY = Path(__file__).with_name("policed_refunds.yaml")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY) as bench:
        bench.fake("stripe:refund", returns={})
        yield bench


def test_the_desk_refunds_small_amounts(bench: Bench) -> None:
    assert bench.submit("refund", {"charge": "ch_1", "amount": 9_900}).run().result == "refunded"


def test_the_desk_asks_for_more(bench: Bench) -> None:
    job = bench.submit("refund", {"charge": "ch_1", "amount": 20_000}).run()
    assert (job.status, job.waits) == ("waiting", ["stripe:refund/ch_1"])
    assert job.approve("stripe:refund/ch_1").run().result == "refunded"


def test_nobody_refunds_a_fortune(bench: Bench) -> None:
    job = bench.submit("refund", {"charge": "ch_1", "amount": 200_000}).run()
    assert (job.status, job.calls) == ("failed", [])
    assert job.error == (
        "PolicyDenied: policy refunds_are_small denies tool stripe:refund to principal operator: "
        "more than 1,000.00"
    )
    (effect,) = job.effects
    assert effect.status == "failed"


def test_jobs_of_events_ask_and_those_of_trials_pay_nothing(bench: Bench) -> None:
    order = {"charge": "ch_1", "amount": 9_900}
    assert bench.event("order.returned", order, source="shop").run().status == "waiting"
    job = bench.event("order.returned", order, source="shop", tenant="trial-7").run()
    assert job.status == "failed"
    assert job.error == (
        "PolicyDenied: policy no-trials denies tool stripe:refund to principal source:shop"
    )
