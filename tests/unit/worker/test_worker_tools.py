"""Which functions are tools: refused before a claim if they cannot be called."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.effect_calls import app_calling, outcome_of

from streams import App, Context
from streams.serde.records import Claim, Outcome

REFUSED = ConnectionRefusedError(111, "refused")


def yields(to: str, *, idempotency_key: str) -> Iterator[None]:
    yield


async def yields_too(to: str, *, idempotency_key: str) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("tool", [yields, yields_too, functools.partial(yields, to="y")])
async def test_a_generator_is_no_effect_since_calling_it_does_nothing(tool: Any) -> None:
    """It was taken for done, and no later run or replay would have begun it."""
    ended, at = await outcome_of(app_calling(tool))
    assert (ended.status, at.bodies(Claim)) == ("failed", [])
    assert "is a generator" in (ended.error or "")


async def forgetful(to: str) -> None:
    raise AssertionError("never called")


async def strict(to: str, subject: str, *, idempotency_key: str) -> None:
    raise AssertionError("never called")


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (forgetful, "forgetful(to: 'str') -> 'None' cannot be called: got an unexpected keyword"),
        (forgetful, "argument 'idempotency_key'"),
        (strict, "missing a required argument: 'subject'"),
        ("no function", "'no function' is no function"),
    ],
)
async def test_a_function_that_cannot_be_called_is_named_and_nothing_is_claimed(
    function: Any, named: str
) -> None:
    ended, at = await outcome_of(app_calling(function))
    assert (ended.status, at.bodies(Claim)) == ("failed", [])
    assert named in (ended.error or "")


async def test_a_wrapper_is_asked_for_its_own_parameters() -> None:
    async def inner(client: str, to: str) -> str:
        return f"{client} to {to}"

    @functools.wraps(inner)
    async def outer(*, idempotency_key: str, **kwargs: Any) -> str:
        return await inner("client", **kwargs)

    ended, _ = await outcome_of(app_calling(outer))
    assert ended.result == '"client to x"'


async def test_a_builtin_without_a_signature_is_called() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> Any:
        return await ctx.effect("t", dict, key="k", a=1)

    ended, _ = await outcome_of(app)
    assert ended.result == '{"a":1,"idempotency_key":"idk of t/k"}'


async def test_an_effect_that_is_refused_after_another_failed_is_known_not_to_be_done() -> None:
    """The handler falls back to a second service: what it handles is of the first effect."""
    app = App("test")

    async def first(idempotency_key: str) -> None:
        raise TimeoutError("sent, and no answer")

    async def second(idempotency_key: str) -> None:
        raise REFUSED

    @app.job("job")
    async def handler(ctx: Context) -> None:
        try:
            await ctx.effect("primary", first, key="k")
        except TimeoutError:
            await ctx.effect("fallback", second, key="k")

    _, at = await outcome_of(app)
    assert [o.status for o in at.bodies(Outcome)] == ["unknown", "failed"]
