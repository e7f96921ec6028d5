from collections.abc import Iterator

import pytest
from reports import app

from streams.testing import Bench, crash_points

DAY = 86_400


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app) as bench:
        bench.fake("email:send", returns={})
        yield bench


def test_a_report_is_sent_on_each_working_day(bench: Bench) -> None:
    bench.advance(7 * DAY)
    jobs = bench.scheduled("daily_report")
    assert len(jobs) == 5
    assert all(job.run().status == "succeeded" for job in jobs)
    assert len({call.key for call in bench.calls}) == 5


def test_the_deep_sync_runs_once_a_week(bench: Bench) -> None:
    bench.advance(7 * DAY)
    assert len(bench.scheduled("deep_sync")) == 1
    assert len(bench.scheduled("sync")) == 7 * 4


def test_wherever_the_worker_dies_a_report_is_sent_once() -> None:
    for crash in crash_points():
        with Bench(app, crash=crash) as bench:
            bench.fake("email:send", returns={})
            bench.advance(DAY)
            (job,) = bench.scheduled("daily_report")
            job.run()
            assert len(job.happened) == 1
