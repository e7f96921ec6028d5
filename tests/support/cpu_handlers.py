"""Handlers for processes of their own: they must be found by their names."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from streams import BlockingContext, PermanentError, RetryAfter


def pid(ctx: BlockingContext[Any]) -> int:
    return os.getpid()


def double(ctx: BlockingContext[Any]) -> int:
    return 2 * int(ctx.input["n"])


def steps_and_effects(ctx: BlockingContext[Any]) -> Any:
    made = ctx.step("made", add, 1, 2, key="k")
    ctx.progress({"stage": "made"})
    ctx.log("made", value=made)
    ctx.stream("half way")
    ctx.heartbeat({"done": 1})
    sent = ctx.effect("email:send", send, key="once", to="a@example.com")
    return {"made": made, "sent": sent, "cancelled": ctx.cancelled, "pid": os.getpid()}


def add(a: int, b: int) -> int:
    return a + b


def send(to: str, idempotency_key: str) -> Any:
    return {"to": to, "pid": os.getpid()}


def spins(ctx: BlockingContext[Any]) -> None:
    """Note the process and a child of it, then ignore everything."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not (child := os.fork()):
        time.sleep(600)
        os._exit(0)
    Path(ctx.input["file"]).write_text(f"{os.getpid()} {child}")
    while True:
        try:
            time.sleep(600)
        except BaseException:
            continue


def eats(ctx: BlockingContext[Any]) -> int:
    return len(bytearray(4_000_000_000))


def exits(ctx: BlockingContext[Any]) -> None:
    os._exit(7)


def says_exit(ctx: BlockingContext[Any]) -> None:
    sys.exit("no more")


def interrupts(ctx: BlockingContext[Any]) -> None:
    raise KeyboardInterrupt


def refuses(ctx: BlockingContext[Any]) -> None:
    raise PermanentError("never")


def later(ctx: BlockingContext[Any]) -> None:
    raise RetryAfter(7, "busy")


def wrong(ctx: BlockingContext[Any]) -> None:
    raise ZeroDivisionError("of their own")


def wrong_key(ctx: BlockingContext[Any]) -> None:
    tool = add
    ctx.effect("email:send", tool, key="once", a=1)


def catches_a_refusal(ctx: BlockingContext[Any]) -> str:
    try:
        ctx.step("", add, 1, 2)
    except PermanentError as error:
        return str(error)
    return "not refused"


def sees_secrets(ctx: BlockingContext[Any]) -> list[str]:
    return [name for name in os.environ if name.startswith("TIDEGATE_")]


def parks(ctx: BlockingContext[Any]) -> None:
    ctx.sleep(3_600)
