"""A handler with one effect, the tool that it calls, and what becomes of both."""

from __future__ import annotations

from typing import Any

from streams import App, Context
from streams.serde.records import Ended
from support.worker_bench import Answer, Bench, bench, granted


class Tool:
    """Counts its calls, then does as it is told."""

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.result, self.error = result, error

    async def __call__(self, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        if self.error:
            raise self.error
        return self.result


def app_calling(tool: Any, key: str = "reply", **options: Any) -> App:
    app = App("test")
    app.tool("email:send", key_lifetime=60)

    @app.job("job", **options)
    async def handler(ctx: Context) -> Any:
        return await ctx.effect("email:send", tool, key=key, to="x")

    return app


async def outcome_of(app: App, answer: Answer = granted) -> tuple[Ended, Bench]:
    async with bench(app, answer=answer) as at:
        return await at.ended(at.give()), at
