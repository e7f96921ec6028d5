from collections.abc import Iterator
from pathlib import Path

import pytest
from asked_refunds import app

from streams.testing import Bench, crash_points

TOPOLOGY = Path(__file__).with_name("asked_refunds.yaml")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY) as bench:
        bench.fake("stripe:refund", returns={})
        bench.fake("email:send", returns={})
        yield bench


def test_a_person_approves_less(bench: Bench) -> None:
    job = bench.submit("refund", {"charge": "ch_1", "amount": 82_000}).run()
    assert (job.status, job.waits, job.calls) == ("waiting", ["approval[refund]"], [])
    job.approve("refund", note="half of it", edit={"amount": 41_000}).run()
    assert job.result == "refunded 41000"
    assert [call.args["amount"] for call in job.calls] == [41_000]


def test_nobody_decides(bench: Bench) -> None:
    job = bench.submit("refund", {"charge": "ch_1", "amount": 82_000}).run()
    bench.advance(24 * 3600 + 1)
    assert job.run().result == "not refunded: expired"
    assert job.calls == []


def test_a_draft_is_sent_as_a_person_edited_it(bench: Bench) -> None:
    job = bench.submit("answer", {"ticket": "t7", "to": "ann@example.com"}).run()
    assert (job.status, job.calls) == ("waiting", [])
    job.approve("email:send/answer", edit={"text": "We mended it."}).run()
    assert [call.args for call in job.calls] == [{"to": "ann@example.com", "text": "We mended it."}]


def test_wherever_the_worker_dies_the_approved_answer_is_sent_once() -> None:
    for crash in crash_points():
        with Bench(app, topology=TOPOLOGY, crash=crash) as bench:
            bench.fake("email:send", returns={})
            job = bench.submit("answer", {"ticket": "t7", "to": "ann@example.com"}).run()
            job.approve("email:send/answer", edit={"text": "We mended it."}).run()
            assert job.status == "succeeded"
            assert [call.args["text"] for call in job.happened] == ["We mended it."]
