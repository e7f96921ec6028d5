"""Names of steps and keys of effects are refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from support.worker_bench import bench

from streams import App, Context

NAMES = ["", "x" * 513, "a\0b", "lone \ud800", 7]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("kind", ["step", "effect"])
async def test_a_name_that_cannot_be_kept_fails_the_job_before_its_function_runs(
    name: Any, kind: str
) -> None:
    app, called = App("test"), []
    app.tool("email:send")

    async def function(**_: object) -> int:
        called.append(1)
        return 1

    @app.job("job")
    async def handler(ctx: Context) -> None:
        if kind == "step":
            await ctx.step(name, function)
        else:
            await ctx.effect("email:send", function, key=name)

    async with bench(app) as at:
        ended = await at.ended(at.give())
    assert (ended.status, called) == ("failed", [])
    assert "characters" in (ended.error or "")
