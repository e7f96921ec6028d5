"""A value of a user is kept exactly as it is, or refused; it is never changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import pytest
from support.bench_apps import app_of, tool

from streams import Context
from streams.testing import Bench, Refused

LONG = 79_228_162_514_264_337_593_543_950_337
"""An integer of 97 bits that no double has."""


@dataclass
class Price:
    amount: float


@dataclass
class Draft:
    text: str | None = None
    sent_at: float = field(init=False)
    _kept: float = math.nan

    def timed(self, sent_at: float) -> Draft:
        self.sent_at = sent_at
        return self


@dataclass
class Total:
    tax: float | None = None

    @cached_property
    def rate(self) -> float:
        return math.nan

    def rated(self) -> Total:
        assert self.rate
        return self


@dataclass(slots=True)
class Slotted:
    _kept: float = math.nan
    amount: float | None = None


class Rate(Enum):
    NONE = math.nan


UNWRITABLE: list[tuple[Any, str]] = [
    (math.nan, "NaN or infinite"),
    ({"a": [1, None, (2, {"b": -math.inf})]}, "NaN or infinite"),
    ([Price(math.nan)], "NaN or infinite"),
    (Draft().timed(math.inf), "NaN or infinite"),
    (Total().rated(), "NaN or infinite"),
    (Slotted(amount=math.nan), "NaN or infinite"),
    (Rate.NONE, "NaN or infinite"),
    (LONG, "more than 64 bits: write it as a string"),
    ("\ud800", "lone surrogate"),
    ({1: "a"}, "a key is not a string"),
]


async def returns(ctx: Context, value: Any) -> Any:
    return value


async def keeps(ctx: Context, value: Any) -> Any:
    return await ctx.step("s", lambda: value)


async def shows(ctx: Context, value: Any) -> None:
    await ctx.progress(value)


async def passes(ctx: Context, value: Any) -> Any:
    return await ctx.effect("keyed", tool, key="1", value=value)


async def receives(ctx: Context, value: Any) -> Any:
    return await ctx.effect("keyed", lambda idempotency_key: value, key="1")


Way = Callable[[Context, Any], Coroutine[Any, Any, Any]]


@pytest.mark.parametrize(("value", "told"), UNWRITABLE, ids=lambda each: ascii(each)[:40])
@pytest.mark.parametrize("way", [returns, keeps, shows, passes, receives])
def test_a_value_that_json_would_change_fails_the_job(way: Way, value: Any, told: str) -> None:
    """NaN became null, and the job succeeded."""

    async def handler(ctx: Context) -> Any:
        return await way(ctx, value)

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert (job.status, told in (job.error or "")) == ("failed", True), job.error
        called = [effect.status for effect in job.effects]
    assert called == (["done"] if way is receives else [])


def test_null_and_fractions_are_values_like_others() -> None:
    async def handler(ctx: Context) -> Any:
        return [None, 1e308, -0.5, 2**64 - 1, Price(1.5)]

    with Bench(app_of(handler)) as bench:
        result = bench.submit("job").run().result
    assert result == [None, 1e308, -0.5, 2**64 - 1, {"amount": 1.5}]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Draft(), {"text": None}),
        (Slotted(), {"amount": None}),
        (Draft().timed(1.5), {"text": None, "sent_at": 1.5}),
    ],
)
def test_what_json_has_of_a_dataclass_is_checked_and_nothing_else(value: Any, kept: Any) -> None:
    """A field without a value failed the run after its tool had acted: its effect was unknown."""

    async def handler(ctx: Context) -> Any:
        return await receives(ctx, value)

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.result) == ("succeeded", kept), job.error
        assert [effect.status for effect in job.effects] == ["done"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (str(LONG), LONG),
        (f"-{2**63 + 1}", -(2**63) - 1),
        (f'"{LONG}"', str(LONG)),
        (f"[1.5, {LONG}, {{}}]", [1.5, LONG, {}]),
        ('{"n": 1, "n": 2}', {"n": 2}),
    ],
)
def test_an_integer_of_any_length_reaches_the_handler_as_it_is(text: str, read: Any) -> None:
    """It was read as a fraction."""
    seen: list[Any] = []

    async def handler(ctx: Context) -> None:
        seen.append(await ctx.json())

    with Bench(app_of(handler)) as bench:
        assert bench.event("created", text.encode(), job="job").run().status == "succeeded"
    assert seen == [read]
    assert type(seen[0]) is type(read)


@pytest.mark.parametrize(("value", "told"), UNWRITABLE, ids=lambda each: ascii(each)[:40])
def test_a_bench_refuses_a_value_that_it_would_change(value: Any, told: str) -> None:
    with Bench(app_of(returns_none)) as bench:
        with pytest.raises(Refused, match=told):
            bench.submit("job", value)
        with pytest.raises(Refused, match=told):
            bench.event("created", value, job="job")


async def returns_none(ctx: Context) -> None: ...
