"""Handlers for processes of their own: they must be found by their names."""

from __future__ import annotations

import os
import re
import signal
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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


def speaks_in_a_step(ctx: BlockingContext[Any]) -> Any:
    def work() -> Any:
        ctx.heartbeat({"done": 1})
        return [ctx.cancelled, ctx.step("inner", add, 1, 2)]

    return ctx.step("outer", work)


def makes_what_cannot_be_sent(ctx: BlockingContext[Any]) -> Any:
    try:
        ctx.step("made", lambda: lambda: None)
    except Exception as error:
        return [type(error).__name__, ctx.step("next", add, 1, 2)]


def has_an_effect_that_cannot_be_sent(ctx: BlockingContext[Any]) -> None:
    def sends(idempotency_key: str) -> Any:
        return lambda: None

    ctx.effect("email:send", sends, key="once")


def returns_what_cannot_be_sent(ctx: BlockingContext[Any]) -> Any:
    return lambda: None


def raises_what_cannot_be_sent(ctx: BlockingContext[Any]) -> Any:
    class Local(Exception):
        held = staticmethod(lambda: None)

    raise Local("local")


def forks_and_returns(ctx: BlockingContext[Any]) -> str:
    """The fork goes on as if it were the handler."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return f"{ctx.job_id} {ctx.step('pid', os.getpid) if child else 'fork'}"


def forks_in_a_step(ctx: BlockingContext[Any]) -> Any:
    def work() -> str:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return "parent" if child else "fork"

    return [ctx.step("work", work), ctx.job_id]


_KEPT: list[BlockingContext[Any]] = []


def keeps_its_context(ctx: BlockingContext[Any]) -> Any:
    """Say what a former run's context does, here and in another thread."""
    told = [_told(each) for each in _KEPT]
    _KEPT.append(ctx)
    with ThreadPoolExecutor(1) as pool:
        return [*told, pool.submit(_told, ctx).result()]


def _told(ctx: BlockingContext[Any]) -> str:
    try:
        return str(ctx.step("late", add, 1, 2))
    except Exception as error:
        return str(error)


def is_interrupted(ctx: BlockingContext[Any]) -> Any:
    def alarm(*_: Any) -> None:
        raise TimeoutError("by a signal")

    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        ctx.effect("email:send", send, key="never", to="a")
    except TimeoutError:
        return ctx.step("next", add, 1, 2)


def dies_while_it_speaks(ctx: BlockingContext[Any]) -> None:
    """Leave half a message, and a process outside of the group that holds the connection."""
    descriptor = int(sys.argv[1])
    if not os.fork():
        os.setsid()
        Path(ctx.input["file"]).write_text(str(os.getpid()))
        time.sleep(600)
        os._exit(0)
    while not Path(ctx.input["file"]).exists():
        time.sleep(0.01)
    os.write(descriptor, struct.pack("!i", 1_000) + b"half")
    os.kill(os.getpid(), signal.SIGKILL)


def waits_for_others(ctx: BlockingContext[Any]) -> int:
    Path(ctx.input["folder"], str(os.getpid())).touch()
    while len(list(Path(ctx.input["folder"]).iterdir())) < ctx.input["number"]:
        time.sleep(0.01)
    return os.getpid()


def waits_for_more(ctx: BlockingContext[Any]) -> int:
    return waits_for_others(ctx)


def is_killed(ctx: BlockingContext[Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fails_after_it_has_sent(ctx: BlockingContext[Any]) -> None:
    def sends(idempotency_key: str) -> None:
        ctx.progress("x" * 300_000)  # it is too large, and refused

    ctx.effect("email:send", sends, key="once")


def fails_before_it_has_sent(ctx: BlockingContext[Any]) -> None:
    def sends(idempotency_key: str) -> None:
        raise PermanentError("no such address")

    ctx.effect("email:send", sends, key="once")


_HOARD: list[bytearray] = []


def hoards(ctx: BlockingContext[Any]) -> int:
    _HOARD.append(bytearray(200_000_000))
    return os.getpid()


def asks_what_cannot_be_sent(ctx: BlockingContext[Any]) -> None:
    ctx.progress(lambda: None)


def keeps_the_interpreter(ctx: BlockingContext[Any]) -> None:
    """No other thread of the process gets a turn for years."""
    Path(ctx.input["file"]).write_text(str(os.getpid()))
    re.match("(a+)+$", "a" * 60 + "b")


def parks(ctx: BlockingContext[Any]) -> None:
    ctx.sleep(3_600)


def sees_the_search_path(ctx: BlockingContext[Any]) -> Any:
    return [os.environ.get("PYTHONPATH"), sys.path]
