from collections.abc import Iterator

import pytest
from typed_refunds import app

from streams.testing import Bench, Refused


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app) as bench:
        bench.fake("payment:refund", returns={"receipt": "r-1"})
        yield bench


def test_a_refund_is_paid_and_its_result_is_plain_json(bench: Bench) -> None:
    job = bench.submit("refund", {"order_id": "4711", "cents": 500}).run()
    assert job.result == {"order_id": "4711", "receipt": "r-1"}


def test_a_submission_that_does_not_fit_is_refused(bench: Bench) -> None:
    with pytest.raises(Refused, match=r"input\.cents: must be more than 0"):
        bench.submit("refund", {"order_id": "4711", "cents": 0})


def test_an_event_that_does_not_fit_fails_and_names_the_field(bench: Bench) -> None:
    job = bench.event("order.refund_requested", {"cents": 500}).run()
    assert (job.status, job.calls) == ("failed", [])
    assert job.error == "PermanentError: the input does not fit Refund: order_id: must be given"
