"""Plain handlers on a bench: virtual time keeps their pace, and jumps in their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import slow_handlers

from streams import App, BlockingContext, Retry
from streams.testing import Bench

either_way = pytest.mark.parametrize("cpu", [False, True], ids=["thread", "process"])


def bench_of(function: Callable[[BlockingContext[Any]], Any], cpu: bool) -> Bench:
    app = App("plain")
    app.job("job", cpu=cpu, timeout=20, retry=Retry(max_attempts=1))(function)
    return Bench(app)


@either_way
@pytest.mark.parametrize(
    "function", [slow_handlers.computes, slow_handlers.computes_in_a_step], ids=["itself", "a step"]
)
def test_what_takes_no_longer_than_its_timeout_does_not_run_past_it(
    function: Callable[[BlockingContext[Any]], Any], cpu: bool
) -> None:
    with bench_of(function, cpu) as bench:
        job = bench.submit("job").run()
        assert (job.error, job.result) == (None, "computed")
        assert slow_handlers.REAL_SECONDS <= bench.seconds < 20


@either_way
def test_a_fake_that_takes_long_costs_virtual_time_alone(cpu: bool) -> None:
    with bench_of(slow_handlers.calls, cpu) as bench:
        bench.fake("plain", returns="faked", takes=600)
        job = bench.submit("job").run()
        assert job.failed_runs[0].kind == "timeout"


@either_way
def test_it_stands_in_a_call_while_the_test_lets_time_pass(cpu: bool) -> None:
    with bench_of(slow_handlers.calls, cpu) as bench:
        job = bench.submit("job").pause_in("plain")
        bench.advance(5)
        assert job.calls == []
        assert job.run().result == "called"
