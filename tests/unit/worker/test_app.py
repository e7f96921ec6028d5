"""Declarations are checked where they stand, and name what is wrong."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import streams
from streams import App, Context, Retry
from streams.errors import ConfigError
from streams.worker.app_loader import load_app


async def handler(ctx: Context) -> None: ...


def test_the_public_names_are_these_and_no_more() -> None:
    assert streams.__all__ == [
        "AmbiguousStep",
        "App",
        "ApprovalExpired",
        "ApprovalRejected",
        "BlockingContext",
        "ChildConflict",
        "ChildFailed",
        "Context",
        "DatabaseSink",
        "Decision",
        "EventsPurged",
        "HistoryDiverged",
        "JobFailed",
        "KafkaSink",
        "Outcome",
        "PermanentError",
        "PolicyDenied",
        "Retry",
        "RetryAfter",
        "SqliteSink",
        "TransientError",
        "WaitRefused",
        "WaitTimeout",
        "consume",
    ]
    assert all(hasattr(streams, name) for name in streams.__all__)


def test_a_declared_job_is_announced_with_its_policy() -> None:
    app = App("shop")
    assert app.job("order", retry=Retry(3, (1, 2)), timeout=9)(handler) is handler
    (announced,) = app.handlers()
    assert (announced.type, announced.max_attempts, announced.backoff) == ("order", 3, (1, 2))
    assert announced.timeout_seconds == 9


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"max_attempts": 1.5}, "max_attempts=1.5"),
        ({"backoff": ()}, r"backoff=\(\)"),
        ({"backoff": 30}, "backoff=30"),
        ({"backoff": (1, -1)}, "backoff"),
        ({"backoff": (float("inf"),)}, "backoff"),
    ],
)
def test_a_wrong_retry_policy_names_its_value(policy: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Retry(**policy)


@pytest.mark.parametrize(
    ("declaration", "named"),
    [
        ({"type": "order"}, "declared twice"),
        ({"type": ""}, "job type ''"),
        ({"type": "a b"}, "job type 'a b'"),
        ({"type": "x", "timeout": 0}, "timeout=0"),
        ({"type": "x", "timeout": -1}, "timeout=-1"),
        ({"type": "x", "timeout": float("nan")}, "timeout=nan"),
        ({"type": "x", "scopes": "email:send"}, "one string"),
        ({"type": "x", "scopes": {"e/mail"}}, "e/mail"),
    ],
)
def test_a_wrong_job_names_what_is_wrong(declaration: dict[str, Any], named: str) -> None:
    app = App("shop")
    app.job("order")(handler)
    with pytest.raises(ConfigError, match=named):
        app.job(**declaration)


def test_what_no_worker_can_call_is_refused() -> None:
    with pytest.raises(ConfigError, match="make it a def or an `async def`"):
        App("shop").job("order")("handler")  # type: ignore[type-var]


def test_a_preflight_belongs_to_one_declared_type() -> None:
    app = App("shop")
    with pytest.raises(ConfigError, match="no such job type"):
        app.preflight("order")
    app.job("order")(handler)
    app.preflight("order")(handler)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="two preflights"):
        app.preflight("order")


def test_a_tool_is_declared_once_with_a_lifetime() -> None:
    app = App("shop")
    app.tool("email:send", key_lifetime=60)
    with pytest.raises(ConfigError, match="twice"):
        app.tool("email:send", key_lifetime=60)
    with pytest.raises(ConfigError, match="key_lifetime=0"):
        app.tool("sms", key_lifetime=0)
    with pytest.raises(ConfigError, match="'a/b'"):
        app.tool("a/b", key_lifetime=1)


def test_what_a_tool_promises_is_optional() -> None:
    app = App("shop")
    app.tool("sms", nothing_done=(ConnectionRefusedError,))
    app.tool("email:send", key_lifetime=60)
    assert [(t.name, t.key_lifetime, t.nothing_done) for t in app.tools.values()] == [
        ("sms", 0, (ConnectionRefusedError,)),
        ("email:send", 60, ()),
    ]


@pytest.mark.parametrize(
    "wrong", [Exception, OSError, TimeoutError, BaseException, asyncio.CancelledError, "x", 1]
)
def test_errors_that_may_follow_a_call_are_not_taken_for_nothing_done(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="tool 'sms': nothing_done="):
        App("shop").tool("sms", nothing_done=(ConnectionRefusedError, wrong))


async def keyless(to: str) -> None: ...


async def positional(idempotency_key: str, /, to: str) -> None: ...


async def keyed(to: str, idempotency_key: str) -> None: ...


async def open_ended(**kwargs: Any) -> None: ...


async def calls_keyless(ctx: Context) -> None:
    if ctx.attempt:
        await ctx.effect("email:send", keyless, key="reply", to="x")


async def calls_positional(c: Context) -> None:
    await c.effect("email:send", positional, key="reply", to="x")


async def calls_what_takes_the_key(ctx: Context) -> None:
    await ctx.effect("email:send", keyed, key="reply", to="x")
    await ctx.effect("email:send", open_ended, key="reply", to="x")
    await ctx.effect("email:send", defined_nowhere, key="reply")  # type: ignore[name-defined]  # noqa: F821
    await ctx.step("plain", keyless, "x")


async def calls_names_of_its_own(ctx: Context) -> None:
    for keyless in (keyed, open_ended):
        await ctx.effect("email:send", keyless, key="reply", to="x")


async def calls_inside(ctx: Context) -> None:
    async def send(keyless: Any) -> None:
        await ctx.effect("email:send", keyless, key="reply", to="x")

    await send(keyed)
    [await ctx.effect("email:send", keyless, key="k") for keyless in (keyed, open_ended)]


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (calls_keyless, r"job type 'order': ctx.effect calls keyless\(to: 'str'\)"),
        (calls_positional, "calls positional"),
    ],
)
def test_an_effect_whose_function_takes_no_key_is_refused_where_it_is_declared(
    function: Any, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        App("shop").job("order")(function)


@pytest.mark.parametrize(
    "function", [calls_what_takes_the_key, calls_names_of_its_own, calls_inside]
)
def test_what_may_take_the_key_is_left_to_the_run(function: Any) -> None:
    assert App("shop").job("order")(function) is function


def test_a_function_below_its_handler_is_looked_at_when_the_app_is_loaded(module: str) -> None:
    Path(f"{module}_late.py").write_text(
        "from streams import App\n"
        "app = App('a')\n"
        "@app.job('order')\n"
        "async def order(ctx):\n"
        "    await ctx.effect('sms', send, key='k')\n"
        "def send(to): ...\n"
    )
    with pytest.raises(ConfigError, match=r"job type 'order': ctx.effect calls send\(to\)"):
        load_app(f"{module}_late:app")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module in the working directory: an app, a number, and an import that fails."""
    name = f"jobs_of_{request.node.name.partition('[')[0]}"
    (tmp_path / f"{name}.py").write_text("from streams import App\napp = App('a')\nn = 3\n")
    (tmp_path / f"{name}_broken.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_an_app_is_found_in_the_working_directory(module: str) -> None:
    assert load_app(f"{module}:app").name == "a"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import json; app = json.loads('{')", "JSONDecodeError: Expecting property name"),
        ("raise SystemExit('no key')", "SystemExit: no key"),
        ("def broken(:", "SyntaxError: invalid syntax"),
    ],
)
def test_an_app_whose_module_raises_is_told_with_its_own_lines_alone(
    module: str, line: str, told: str
) -> None:
    Path(f"{module}_raising.py").write_text(f"# an application\n{line}\n")
    with pytest.raises(ConfigError) as raised:
        load_app(f"{module}_raising:app")
    first, place, *lines = str(raised.value).splitlines()
    assert f"{module}_raising cannot be imported: " in first
    assert told in first
    assert place.startswith(f'  File "{Path.cwd()}/{module}_raising.py", line 2')
    assert line in lines[0]
    assert "File" not in "".join(lines)


@pytest.mark.parametrize(
    ("suffix", "named"),
    [
        ("", "module:attribute"),
        (":missing", "has no 'missing'"),
        (":n", "is a int, not a streams.App"),
        ("_broken:app", "imports 'no_such_library'"),
        (".inner:app", "no module"),
        ("x:app", "no module"),
    ],
)
def test_a_wrong_app_says_which_part_is_wrong(module: str, suffix: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        load_app(module + suffix)
