"""Makes the calls of a plain function in the run's own context."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.worker.handler.context import Context


async def made(ctx: Context[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of the context gives, once it is done."""
    if name == "log":
        ctx.log.info(*args, **kwargs)
        return None
    if name == "cancelled":
        return ctx.cancelled
    found = getattr(ctx, name)(*args, **kwargs)
    value = await found if inspect.isawaitable(found) else found
    if name == "enqueue" and not kwargs.get("wait"):
        return value.job_id
    return value
