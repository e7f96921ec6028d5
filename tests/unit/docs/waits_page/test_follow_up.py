from collections.abc import Iterator
from pathlib import Path

import pytest
from follow_up import app

from streams.testing import Bench, crash_points

TOPOLOGY = Path(__file__).with_name("follow_up.yaml")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY) as bench:
        bench.fake("email:send", returns={})
        yield bench


def test_an_answer_ends_the_wait(bench: Bench) -> None:
    job = bench.submit("follow_up", {"ticket": "t7"}).run()
    assert (job.status, job.waits) == ("waiting", ["event", "sleep"])
    bench.advance(3 * 3600)
    bench.deliver("ticket.answered", subject="t7", attributes={"text": "yes"})
    assert job.run().result == "answered: yes"
    assert [call.key for call in job.calls] == ["question"]


def test_without_an_answer_a_reminder_is_sent_once(bench: Bench) -> None:
    job = bench.submit("follow_up", {"ticket": "t7"}).run()
    bench.crash_worker()
    bench.advance(4 * 3600 + 1)
    assert job.run().result == "reminded"
    assert [call.key for call in job.calls] == ["question", "reminder"]


def test_an_answer_that_comes_before_the_wait_is_not_lost(bench: Bench) -> None:
    job = bench.submit("follow_up", {"ticket": "t7"}).pause_in("email:send")
    bench.deliver("ticket.answered", subject="t7", attributes={"text": "at once"})
    assert job.run().result == "answered: at once"


def test_what_a_job_listens_to_is_kept_for_it(bench: Bench) -> None:
    job = bench.submit("payment", {"order": "o1"}).pause_in("email:send")
    bench.deliver("invoice.paid", subject="o1")
    assert job.run().result == "paid"


def test_wherever_the_worker_dies_the_question_is_sent_once_and_the_answer_counts() -> None:
    for crash in crash_points():
        with Bench(app, topology=TOPOLOGY, crash=crash) as bench:
            bench.fake("email:send", returns={})
            job = bench.submit("follow_up", {"ticket": "t7"}).run()
            bench.deliver("ticket.answered", subject="t7", attributes={"text": "yes"})
            assert job.run().result == "answered: yes"
            assert [call.key for call in job.happened] == ["question"]
