"""Small applications for tests of `streams.testing`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from streams import App, Context, Retry

Handler = Callable[[Context], Awaitable[Any]]


def app_of(handler: Handler, type: str = "job", **options: Any) -> App:
    """An application with one job type; `options` are those of `App.job`."""
    app = App("small")
    app.tool("keyed", key_lifetime=3_600)
    options.setdefault("retry", Retry(max_attempts=3, backoff=(10, 100)))
    app.job(type, **options)(handler)
    return app


async def tool(idempotency_key: str, **arguments: Any) -> dict[str, Any]:
    """A tool that says what it was called with."""
    return {"did": arguments}


async def one_effect(ctx: Context) -> Any:
    """A handler whose job calls the undeclared tool `plain`."""
    return await ctx.effect("plain", tool, key="1", n=1)


async def keyed_effect(ctx: Context) -> Any:
    """A handler whose job calls a tool that honours keys."""
    return await ctx.effect("keyed", tool, key="1", n=1)
