from collections.abc import Iterator

import pytest
from billing import app

from streams.testing import Bench, crash_points

MONTH = {"month": "2026-11"}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app) as bench:
        yield bench


def test_each_account_gets_its_statement(bench: Bench) -> None:
    job = bench.submit("close_month", MONTH).run()
    assert job.result == {
        "report": "2 statements",
        "failed": ["PermanentError: closed has no address"],
    }
    assert [child.record.type for child in job.children] == [
        "archive",
        *["statement"] * 3,
        "report",
    ]


def test_wherever_a_worker_dies_each_statement_is_sent_once() -> None:
    for crash in crash_points():
        with Bench(app, crash=crash) as bench:
            bench.submit("close_month", MONTH, key="1").run()
            sent = [call.args["to"] for call in bench.happened if call.tool == "email:send"]
            assert sorted(sent) == ["ann", "bob"]


def test_a_failure_that_is_caught_does_not_fail_the_parent(bench: Bench) -> None:
    job = bench.submit("refund", {"account": "closed"}).run()
    assert job.result == "statement failed: PermanentError: closed has no address"


def test_a_cancel_goes_down_but_not_to_what_was_abandoned(bench: Bench) -> None:
    bench.fake("email:send", takes=60)
    job = bench.submit("close_month", MONTH).run(runs=1)
    job.cancel("wrong month")
    bench.advance(120)
    ends = {(child.record.type, child.status) for child in job.children}
    assert ends == {("archive", "waiting"), ("statement", "cancelled"), ("statement", "failed")}


def test_a_job_in_review_keeps_its_parent_waiting_until_its_replay_takes_its_place(
    bench: Bench,
) -> None:
    bench.fake("print", in_turn=[RuntimeError("no answer"), {"pages": 1}])
    job = bench.submit("close_month", MONTH).run()
    report = job.children[-1]
    assert (job.status, report.status) == ("waiting", "needs_review")
    again = report.replay(note="paper", fresh_scope=True, repeat_effects=["print/report"])
    assert again.run().result == "2 statements"
    assert job.run().result["report"] == "2 statements"
    sent = [call.args["to"] for call in bench.happened if call.tool == "email:send"]
    assert sorted(sent) == ["ann", "bob"]


def test_each_day_has_a_history_of_its_own(bench: Bench) -> None:
    job = bench.submit("poll", {"day": 1}).run()
    bench.advance(25 * 3600)
    job.run()
    assert (job.record.continuations, job.record.input) == (1, '{"day":2}')
    assert len(job.steps) < 24
