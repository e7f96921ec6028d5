"""What an application's policies say goes with the claim, and a denial ends the job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.worker_bench import bench

from streams import App, Context, PolicyDenied, RetryAfter
from streams.errors import ConfigError
from streams.middleware import Approve, Deny, EffectCall, GoOnWithEffect, Middleware
from streams.serde.records import Claim, Ended, PolicyObjection


async def pay(amount: int, idempotency_key: str) -> int:
    return amount


async def paying(ctx: Context) -> int:
    result: int = await ctx.effect("payment:pay", pay, key="k", amount=21)
    return result


def app_of(*policies: Any) -> App:
    app = App("test")
    app.job("job")(paying)
    for policy in policies:
        app.policy(policy)
    return app


async def ran(app: App, **answer: Any) -> tuple[Ended, list[Claim]]:
    given: dict[str, Any] = {"answer": lambda _: answer} if answer else {}
    async with bench(app, **given) as at:
        ended = await at.ended(at.give(principal="source:shop"))
        return ended, at.bodies(Claim)


def allows(call: EffectCall) -> None: ...


async def denies(call: EffectCall) -> Deny:
    return Deny("it is night")


def asks(call: EffectCall) -> Approve:
    return Approve("it is night")


def asks_too(call: EffectCall) -> Approve:
    return Approve("it is far")


@pytest.mark.parametrize(
    ("policies", "objection"),
    [
        ((), None),
        ((allows,), None),
        ((denies,), PolicyObjection("denies", "deny", "it is night")),
        ((allows, asks, asks_too), PolicyObjection("asks", "approve", "it is night")),
        ((allows, asks, denies), PolicyObjection("denies", "deny", "it is night")),
        ((denies, asks), PolicyObjection("denies", "deny", "it is night")),
    ],
)
async def test_a_denial_goes_with_the_claim_else_the_first_wish_for_an_approval(
    policies: tuple[Any, ...], objection: PolicyObjection | None
) -> None:
    ended, claims = await ran(app_of(*policies))
    assert [claim.objection for claim in claims] == [objection]
    assert ended.status == "succeeded", "the ledger decides, and here it has granted"


async def test_a_policy_sees_the_effect_and_for_whom_the_job_was_made() -> None:
    seen: list[EffectCall] = []
    await ran(app_of(seen_by(seen)))
    (call,) = seen
    assert (call.tool, call.key, call.arguments) == ("payment:pay", "k", {"amount": 21})
    assert (call.tenant_id, call.job_type, call.principal) == ("acme", "job", "source:shop")


def seen_by(seen: list[EffectCall]) -> Any:
    def policy(call: EffectCall) -> None:
        seen.append(call)

    return policy


async def test_a_denial_of_the_ledger_fails_the_job_with_its_words() -> None:
    told = "policy no-pay denies tool payment:pay to principal source:shop"
    ended, _ = await ran(app_of(), kind="denied", message=told)
    assert (ended.status, ended.error) == ("failed", f"PolicyDenied: {told}")


async def test_a_handler_may_go_another_way() -> None:
    async def handler(ctx: Context) -> str:
        try:
            await ctx.effect("payment:pay", pay, key="k", amount=1)
        except PolicyDenied:
            return "told the desk"
        return "paid"

    app = App("test")
    app.job("job")(handler)
    ended, _ = await ran(app, kind="denied", message="no")
    assert (ended.status, ended.result) == ("succeeded", '"told the desk"')


def breaks(call: EffectCall) -> None:
    raise KeyError("amount")


def comes_later(call: EffectCall) -> None:
    raise RetryAfter(9, "the rights are being loaded")


def says_yes(call: EffectCall) -> Any:
    return True


def talks(call: EffectCall) -> Deny:
    return Deny("x" * 2_001)


@pytest.mark.parametrize(
    ("policy", "status", "error"),
    [
        (breaks, "retry", "KeyError: 'amount' (in middleware Policy: breaks)"),
        (
            comes_later,
            "retry",
            "RetryAfter: the rights are being loaded (in middleware Policy: comes_later)",
        ),
        (
            says_yes,
            "failed",
            "PermanentError: it returned True: return None, Deny(reason) or Approve(reason) "
            "(in middleware Policy: says_yes)",
        ),
        (
            talks,
            "failed",
            "PermanentError: its reason has 2,001 characters: give 2,000 "
            "(in middleware Policy: talks)",
        ),
    ],
)
async def test_a_policy_that_fails_lets_no_effect_begin(
    policy: Any, status: str, error: str
) -> None:
    ended, claims = await ran(app_of(policy))
    assert (ended.status, ended.error, claims) == (status, error, [])


async def test_nobody_is_asked_to_approve_what_a_later_policy_cannot_judge() -> None:
    ended, claims = await ran(app_of(asks, breaks))
    assert (ended.status, claims) == ("retry", [])


@pytest.mark.parametrize(
    ("reason", "told"), [("\ud83d", "\\ud83d"), ("x" * 2_000, "x" * 2_000), (None, "None")]
)
async def test_any_reason_can_be_sent(reason: Any, told: str) -> None:
    def denies_oddly(call: EffectCall) -> Deny:
        return Deny(reason)

    _, (claim,) = await ran(app_of(denies_oddly))
    assert claim.objection == PolicyObjection("denies_oddly", "deny", told)


class AsksToo(Middleware):
    """A middleware that objects by itself."""

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        effect.objections.append(PolicyObjection("own", "approve", "always"))
        return await go_on()


async def test_a_denial_goes_before_the_wish_for_an_approval() -> None:
    app = app_of(denies)
    app.middleware.add(AsksToo(), before=Middleware)
    _, (claim,) = await ran(app)
    assert claim.objection == PolicyObjection("denies", "deny", "it is night")


def takes_more(call: EffectCall, more: str) -> None: ...


def test_a_wrong_declaration_is_refused_where_it_stands() -> None:
    app = app_of(allows)
    with pytest.raises(ConfigError, match="policy 'allows' is declared twice"):
        app.policy(allows)
    with pytest.raises(ConfigError, match="policy 'takes_more': give a function of one EffectCall"):
        app.policy(takes_more)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="policy '<lambda>'"):
        app.policy(lambda call: None)


async def test_a_policy_is_asked_about_what_is_called() -> None:
    asked, changed = asyncio.Event(), asyncio.Event()

    async def slow(call: EffectCall) -> Deny | None:
        small = sum(call.arguments["amounts"]) < 10
        asked.set()
        await changed.wait()
        return None if small else Deny("too much")

    async def pay_all(amounts: list[int], idempotency_key: str) -> list[int]:
        return amounts

    async def handler(ctx: Context) -> object:
        amounts = [1]
        paid = asyncio.ensure_future(ctx.effect("payment:pay", pay_all, key="k", amounts=amounts))
        await asked.wait()
        amounts.append(1_000)
        changed.set()
        return await paid

    app = App("test")
    app.job("job")(handler)
    app.policy(slow)
    ended, _ = await ran(app)
    assert (ended.status, ended.result) == ("succeeded", "[1]")
