"""The log tells of every run that did not succeed, and of a flood of successes in one line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from streams.worker.handler.run_result import RunResult
from streams.worker.middleware.run_log import LINES_A_SECOND, EndedRuns

LEASE: Any = SimpleNamespace(job_id="job_1", type="draft", attempt=1)


@dataclass
class Loop:
    """Keeps what is to be called later."""

    later: Any = None

    def call_later(self, seconds: float, call: Any) -> Any:
        self.later = call
        return SimpleNamespace(cancel=lambda: None)


def told(runs: EndedRuns, *endings: RunResult) -> list[dict[str, Any]]:
    with capture_logs() as lines:
        for run_result in endings:
            runs.tell(LEASE, run_result, 0.01)
    return [dict(line) for line in lines]


def test_of_a_flood_the_rest_is_summed_up_when_its_second_is_over() -> None:
    loop = Loop()
    runs = EndedRuns(loop)  # type: ignore[arg-type]
    flood = [RunResult("succeeded")] * (LINES_A_SECOND + 30)
    assert [line["event"] for line in told(runs, *flood)] == ["run ended"] * LINES_A_SECOND
    with capture_logs() as lines:
        loop.later()
    assert [(line["event"], line["runs"]) for line in lines] == [("more runs ended", 30)]
    assert len(told(runs, RunResult("succeeded"))) == 1, "a new second has lines of its own"


def test_what_did_not_succeed_always_has_a_line() -> None:
    runs = EndedRuns(Loop())  # type: ignore[arg-type]
    told(runs, *[RunResult("succeeded")] * 2 * LINES_A_SECOND)
    failed = told(runs, *[RunResult("failed", error="no such ticket")] * 50)
    assert [line["error"] for line in failed] == ["no such ticket"] * 50


async def test_few_runs_need_no_sum() -> None:
    runs = EndedRuns(asyncio.get_running_loop())
    told(runs, RunResult("succeeded"))
    with capture_logs() as lines:
        runs.sum_up()
    assert lines == []
