"""Plain handlers that take real time: those with cpu=True must be found by their names."""

from __future__ import annotations

import time
from typing import Any

from streams import BlockingContext

REAL_SECONDS = 0.3


def computes(ctx: BlockingContext[Any]) -> str:
    time.sleep(REAL_SECONDS)
    return "computed"


def computes_in_a_step(ctx: BlockingContext[Any]) -> Any:
    return ctx.step("slow", _slow)


def calls(ctx: BlockingContext[Any]) -> Any:
    return ctx.effect("plain", _call, key="1")


def _slow() -> str:
    time.sleep(REAL_SECONDS)
    return "computed"


def _call(idempotency_key: str) -> str:
    return "called"
