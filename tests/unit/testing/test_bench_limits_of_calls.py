"""Limits of tools and models on a bench: the product's own worker and dispatcher."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from streams import App, Context
from streams.testing import Bench, Crash, crash_points

TOPOLOGY = """
routes: []
limits:
  - {name: mails, scope: tool, match: "email:*", concurrency: 2}
  - {name: gpt, scope: model, match: "gpt-*", concurrency: 2}
"""


class Outside:
    """A tool that counts how many of its calls are under way."""

    def __init__(self) -> None:
        self.now = self.most = self.calls = 0

    async def __call__(self, idempotency_key: str) -> int:
        self.now += 1
        self.calls += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(1)
        finally:
            self.now -= 1
        return self.calls


def app_of(outside: Outside, letters: int) -> App:
    app = App("desk")
    app.tool("email:send", key_lifetime=3600)

    @app.job("drafts")
    async def drafts(ctx: Context) -> Any:
        calls = (ctx.step(f"s{n}", outside, f"k{n}", model="gpt-x") for n in range(letters))
        return await asyncio.gather(*calls)

    @app.job("mails")
    async def mails(ctx: Context) -> Any:
        calls = (ctx.effect("email:send", outside, key=f"k{n}") for n in range(letters))
        return await asyncio.gather(*calls)

    return app


def bench_of(tmp_path: Path, app: App, crash: Crash | None = None) -> Bench:
    path = tmp_path / "topology.yaml"
    path.write_text(TOPOLOGY)
    return Bench(app, topology=path, crash=crash)


@pytest.mark.parametrize("type_", ["mails", "drafts"])
@pytest.mark.parametrize("letters", [1, 3])
def test_no_more_calls_are_under_way_than_the_cap_says(
    tmp_path: Path, type_: str, letters: int
) -> None:
    outside = Outside()
    with bench_of(tmp_path, app_of(outside, letters)) as bench:
        jobs = [bench.submit(type_) for _ in range(5)]
        for job in jobs:
            assert job.run().status == "succeeded"
            assert job.attempts == 1
    assert (outside.most, outside.calls) == (2, 5 * letters)


@pytest.mark.parametrize("type_", ["mails", "drafts"])
def test_a_crash_at_each_point_strands_no_job(tmp_path: Path, type_: str) -> None:
    for crash in crash_points():
        with bench_of(tmp_path, app_of(Outside(), 1), crash) as bench:
            jobs = [bench.submit(type_) for _ in range(3)]
            for job in jobs:
                assert job.run().status == "succeeded", crash
