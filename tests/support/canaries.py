"""Secrets that an application plants in all that a handler can say, and where they are found.

`app` is also given to processes: `--app support.canaries:app`, with `TOPOLOGY` as their topology.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn
from urllib.parse import quote

import structlog

from streams import App, Context, PermanentError, Retry, TransientError
from streams.errors import WaitTimeout
from streams.serde.step_ids import step_id

CREDENTIAL = "canary/credential+9f3a7c"
CARD = "4242424242424242"
MAIL = "canary@example.com"
CASE = "CASE-770011"
PIN = "the-pin-of-a-canary"
"""It has no form of its own: the name of its field alone says that it is secret."""

SAID = f"key {CREDENTIAL}, card {CARD}, mail {MAIL}, case {CASE}"
VALUE: dict[str, Any] = {
    "text": SAID,
    "pin": PIN,
    "deep": [{"pin": [PIN]}, {MAIL: int(CARD), SAID: None}],
}
TOPOLOGY = """
credentials: [{name: stripe, provider: environment, reference: CANARY_KEY}]
redaction: {fields: ["$..pin"], patterns: ['CASE-\\d+'], presets: [card, mail, token]}
routes: [{match: {source: "*", event_type: "*"}, job: says}]
"""

log = structlog.get_logger(__name__)
app = App("canaries")
_ONCE = Retry(max_attempts=1)
_TWICE = Retry(max_attempts=2, backoff=(1,))


def found_in(places: Iterable[tuple[str, bytes]], *more: str) -> list[str]:
    """The places that show a planted secret, in any of its forms; `more` are looked for, too."""
    forms = [form for each in (CREDENTIAL, CARD, MAIL, CASE, PIN, *more) for form in _forms(each)]
    return [f"{place}: {form!r}" for place, held in places for form in forms if form in held]


def _forms(text: str) -> Iterator[bytes]:
    yield text.encode()
    yield quote(text, safe="").encode()
    yield step_id("", text).encode()
    yield base64.b64encode(text.encode()).rstrip(b"=")


def value() -> dict[str, Any]:
    return VALUE


def large() -> list[Any]:
    """Too much for a record: it goes to the store of artifacts."""
    return [VALUE, "x" * 300_000, SAID]


def logs() -> None:
    """Log by structlog, and by the standard library, as the clients of vendors do."""
    log.info("says", text=SAID, value=VALUE)
    logging.getLogger("a.vendor").warning("sent %s", SAID)
    try:
        raises()
    except ValueError:
        log.exception("raised")
        logging.getLogger("a.vendor").exception("raised")


def stream(ctx: Context) -> None:
    """Say them while the run goes on: in pieces, in log lines, and in a heartbeat."""
    for begin in range(0, len(SAID), 3):
        ctx.stream(SAID[begin : begin + 3])
    ctx.log.info(SAID, value=VALUE)
    try:
        raises()
    except ValueError:
        ctx.log.exception("raised")
    ctx.heartbeat(VALUE)


def raises() -> NoReturn:
    try:
        raise KeyError(SAID)
    except KeyError as error:
        told = ValueError(SAID + " x" * 3_000)
        told.add_note(SAID)
        raise told from error


async def act(idempotency_key: str) -> dict[str, Any]:
    return VALUE


async def act_with(text: str, idempotency_key: str) -> dict[str, Any]:
    return VALUE


async def act_and_raise(idempotency_key: str) -> None:
    raises()


@app.job("says", retry=_ONCE)
async def says(ctx: Context) -> Any:
    """Plant them in each value that a handler gives away."""
    assert await ctx.credentials("stripe") == CREDENTIAL
    logs()
    kept = await ctx.step("value", value)
    assert PIN not in str(kept)
    await ctx.progress(VALUE)
    stream(ctx)
    await ctx.step("streams", stream, ctx)
    assert await ctx.effect("tool", act, key="1") == kept
    child = await ctx.enqueue("child", VALUE)
    found = await ctx.gather([ctx.child("child", VALUE), ctx.child("child", SAID)], key="all")
    await ctx.approval("go", prompt=SAID, timeout=1)
    await ctx.step("large", large)
    return [VALUE, await child, found, SAID, large()]


@app.job("child", retry=_ONCE)
async def child(ctx: Context) -> Any:
    return [ctx.input, VALUE]


@app.job("raises", retry=_TWICE)
async def raises_job(ctx: Context) -> None:
    await ctx.credentials("stripe")
    raises()


@app.job("groups", retry=_TWICE)
async def groups(ctx: Context) -> None:
    await ctx.credentials("stripe")
    raise ExceptionGroup(SAID, [TransientError(SAID), ValueError(SAID)])


@app.job("permanent", retry=_ONCE)
async def permanent(ctx: Context) -> None:
    await ctx.credentials("stripe")
    raise PermanentError(SAID)


@app.job("hangs", retry=_ONCE, timeout=2)
async def hangs(ctx: Context) -> None:
    await ctx.credentials("stripe")
    # Nobody looks at it: asyncio logs it.
    asyncio.get_running_loop().create_future().set_exception(ValueError(SAID))
    await asyncio.sleep(60)


@app.job("in_effect", retry=_ONCE)
async def in_effect(ctx: Context) -> None:
    await ctx.credentials("stripe")
    await ctx.effect("tool", act_and_raise, key="1")


@app.job("in_step", retry=_ONCE)
async def in_step(ctx: Context) -> None:
    await ctx.credentials("stripe")
    await ctx.step("raises", raises)


@app.job("continues", retry=_ONCE)
async def continues(ctx: Context) -> Any:
    await ctx.credentials("stripe")
    return ctx.input if ctx.input.get("text") else ctx.continue_as_new(VALUE)


@app.job("checked", retry=_ONCE)
async def checked(ctx: Context) -> None:
    """Its preflight raises."""


@app.preflight("checked")
async def check(ctx: Context) -> bool:
    await ctx.credentials("stripe")
    raises()


async def in_branch(ctx: Context, name: str) -> None:
    async with ctx.branch(name):
        await ctx.step("value", value)


async def patched(ctx: Context, name: str) -> None:
    if ctx.patched(name):
        await ctx.step("value", value)


NAMES: dict[str, Callable[[Context, str], Any]] = {
    "step": lambda ctx, name: ctx.step(name, value),
    "step_key": lambda ctx, name: ctx.step("value", value, key=name),
    "effect": lambda ctx, name: ctx.effect("tool", act, key=name),
    "effect_argument": lambda ctx, name: ctx.effect("tool", act_with, key="1", text=name),
    "sleep": lambda ctx, name: ctx.sleep(1, name=name),
    "wait": lambda ctx, name: ctx.wait_for_event({"event_type": "x", "subject": name}, timeout=1),
    "listen": lambda ctx, name: ctx.listen({"event_type": "x", "subject": name}, timeout=1),
    "approval_argument": lambda ctx, name: ctx.approval(
        "go", effects=[{"tool": "tool", "key": "1", "arguments": {"text": name}}], timeout=1
    ),
    "artifact": lambda ctx, name: ctx.save(b"fine", name=name),
    "approval": lambda ctx, name: ctx.approval(name, prompt="go", timeout=1),
    "child": lambda ctx, name: ctx.enqueue("child", 1, key=name),
    "branch": in_branch,
    "patched": patched,
    "gather": lambda ctx, name: ctx.gather([ctx.child("child", 1)], key=name),
}
"""Names that a handler chooses: one that holds a secret is refused, and not changed."""


@app.job("names", retry=_ONCE)
async def names(ctx: Context) -> None:
    secrets = await ctx.credentials("stripe"), MAIL, CARD, CASE
    call, which = ctx.input
    try:
        await NAMES[call](ctx, secrets[which])
    except WaitTimeout:
        return


JOBS: tuple[tuple[str, Any], ...] = tuple(
    (name, {})
    for name in (
        *("says", "raises", "groups", "permanent", "hangs"),
        *("in_effect", "in_step", "continues", "checked"),
    )
)
"""A type and an input of each job that plants them in values and errors."""
