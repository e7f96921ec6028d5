"""Time of a bench is virtual: it costs nothing, and it never passes by itself."""

from __future__ import annotations

import asyncio
import selectors
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from support.bench_apps import app_of, one_effect
from support.collection import collect

from streams import Context, Retry, TransientError
from streams.testing import Bench

MOST_TURNS = 60
"""Twice what a run takes: more work for each run would make a large suite slow."""


async def sleeps(ctx: Context) -> float:
    before = asyncio.get_running_loop().time()
    async with asyncio.timeout(200):
        await asyncio.sleep(100)
    return asyncio.get_running_loop().time() - before


def test_sleeping_takes_virtual_time_alone() -> None:
    """In real time it would outlast the patience of the bench."""
    with Bench(app_of(sleeps)) as bench:
        assert bench.submit("job").run().result == pytest.approx(100, abs=0.01)


def test_runs_are_counted_from_one() -> None:
    with Bench(app_of(sleeps)) as bench, pytest.raises(ValueError, match=r"run\(runs=0\)"):
        bench.submit("job").run(runs=0)


def test_no_time_passes_but_by_the_tests_will() -> None:
    with Bench(app_of(sleeps)) as bench:
        before = bench.seconds
        job = bench.submit("job")
        assert bench.seconds == before
        bench.advance(60)
        assert bench.seconds == before + 60
        assert job.status == "running"


def test_a_month_of_backoffs_takes_virtual_time_alone() -> None:
    async def fails(ctx: Context) -> None:
        raise TransientError("busy")

    with Bench(app_of(fails, retry=Retry(max_attempts=31, backoff=(86_400,)))) as bench:
        assert bench.submit("job").run().attempts == 31
        assert bench.seconds > 30 * 86_400


def test_a_handler_that_goes_in_circles_ends_the_patience() -> None:
    async def spins(ctx: Context) -> None:
        while True:
            await asyncio.sleep(0)

    with Bench(app_of(spins), patience=0.2) as bench:
        job = bench.submit("job")
        with pytest.raises(AssertionError, match=r"after 0\.2 real seconds .*running"):
            job.run()


def test_a_handler_that_waits_for_nothing_runs_into_its_timeout() -> None:
    async def waits(ctx: Context) -> None:
        await asyncio.Event().wait()

    with Bench(app_of(waits, retry=Retry(max_attempts=1))) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.error) == ("dead", "TimeoutError: ran past its 300 s")


def test_a_bench_leaves_nothing_behind() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Bench(app_of(sleeps)) as bench:
            bench.submit("job")
            bench.advance(1)
            bench.crash_worker()
        del bench
        collect()


def test_nobody_hears_of_what_ends_with_the_bench() -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").pause_in("plain")
    assert (job.status, job.effects[0].status) == ("running", "claimed")


@pytest.fixture
def unconfigured() -> Iterator[None]:
    """A structlog that nobody has configured yet; other tests may have."""
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.mark.usefixtures("unconfigured")
def test_tracebacks_are_plain_only_while_there_is_a_bench() -> None:
    renderer = structlog.get_config()["processors"][-1]
    before = renderer.exception_formatter
    with Bench(app_of(one_effect)):
        assert renderer.exception_formatter is structlog.dev.plain_traceback
        assert not structlog.is_configured()
    assert renderer.exception_formatter is before


@pytest.mark.usefixtures("unconfigured")
@pytest.mark.parametrize("configure", [structlog.configure, structlog.configure_once])
def test_what_an_application_configures_beside_a_bench_outlives_it(
    configure: Callable[..., None],
) -> None:
    """A module that a handler imports late may be the one that configures logging."""
    its_own = [structlog.processors.JSONRenderer()]
    with Bench(app_of(one_effect)) as bench:
        configure(processors=its_own, wrapper_class=structlog.BoundLogger)
        bench.submit("job").run()
    kept = structlog.get_config()
    assert structlog.is_configured()
    assert (kept["processors"], kept["wrapper_class"]) == (its_own, structlog.BoundLogger)


@pytest.mark.usefixtures("unconfigured")
def test_benches_that_close_in_another_order_leave_the_logs_as_they_were() -> None:
    renderer = structlog.get_config()["processors"][-1]
    before = renderer.exception_formatter
    first, second = Bench(app_of(one_effect)), Bench(app_of(one_effect))
    first.close()
    second.close()
    assert renderer.exception_formatter is before


@pytest.mark.usefixtures("unconfigured")
def test_the_logs_of_an_application_stay_as_it_configured_them() -> None:
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    with Bench(app_of(one_effect)) as bench:
        bench.submit("job").run()
        assert len(structlog.get_config()["processors"]) == 1
    assert structlog.is_configured()


def test_a_run_never_waits_in_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float | None]()
    select = selectors.DefaultSelector.select

    def counted(selector: Any, timeout: float | None = None) -> Any:
        waits.append(timeout)
        return select(selector, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", counted)
    monkeypatch.setattr(time, "sleep", waits.append)
    with Bench(app_of(one_effect)) as bench:
        assert bench.submit("job").run().status == "succeeded"
    assert set(waits) == {0}
    assert len(waits) < MOST_TURNS, "turns of the worker's loop, making the bench included"
