"""What an approval must not let through: leaks, arguments that were not approved, false waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streams import App, Context, PermanentError
from streams.testing import Bench, Refused

app = App("desk")
app.tool("pay:refund", key_lifetime=86_400)
SECRET = "4111-1111-1111-1111"


def pay(idempotency_key: str, **arguments: Any) -> dict[str, Any]:
    return arguments


def effect(**arguments: Any) -> dict[str, Any]:
    return {"tool": "pay:refund", "key": "ch_1", "arguments": arguments}


@app.job("asks")
async def asks(ctx: Context) -> Any:
    """It asks for what its input says."""
    decision = await ctx.approval("refund", **ctx.input)
    for asked in ctx.input.get("effects", []):
        arguments = asked["arguments"] | (decision.edit or {})
        await ctx.effect("pay:refund", pay, key=asked["key"], **arguments)
    return decision.edit


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app) as bench:
        yield bench


MALFORMED = (
    {"tool": "pay:refund", "key": "ch_1", "args": {"card": SECRET}},
    {"tool": SECRET * 2, "key": {"card": SECRET}, "arguments": {}},
    [SECRET],
)


@app.job("malformed")
async def malformed(ctx: Context) -> None:
    await ctx.approval("refund", effects=[MALFORMED[ctx.input]])  # type: ignore[list-item]


@pytest.mark.parametrize("which", range(len(MALFORMED)))
def test_a_malformed_question_tells_nothing_of_its_arguments(
    bench: Bench, which: int, capsys: pytest.CaptureFixture[str]
) -> None:
    job = bench.submit("malformed", which).run()
    assert job.status == "failed"
    assert "approval: an effect" in (job.error or "")
    told = repr((job.record, bench._behind.pipeline.dead_letter(job.id), capsys.readouterr()))
    assert SECRET not in told


WRONG = (
    {"quorum": 2.0},
    {"quorum": 21},
    {"prompt": 5},
    {"prompt": "\ud800"},
    {"prompt": "x" * 300_000},
    {"effects": [{"tool": "t", "key": "k", "arguments": {1: 2, "1": 3}}]},
    {"effects": [{"tool": "t", "key": "k", "arguments": {}}] * 2},
)


@app.job("wrong")
async def wrong(ctx: Context) -> None:
    await ctx.approval("refund", **WRONG[ctx.input])


@pytest.mark.parametrize("which", range(len(WRONG)))
def test_a_question_with_wrong_terms_fails_the_job_at_once(bench: Bench, which: int) -> None:
    job = bench.submit("wrong", which).run()
    assert (job.status, "PermanentError: approval" in (job.error or "")) == ("failed", True)


def test_an_edit_names_arguments_that_were_asked_for(bench: Bench) -> None:
    job = bench.submit("asks", {"effects": [effect(amount=82_000)]}).run()
    with pytest.raises(Refused, match="has no argument 'amout'"):
        job.approve("refund", edit={"amout": 41_000})
    assert (job.status, job.calls) == ("waiting", [])


def test_an_edit_changes_each_effect_once(bench: Bench) -> None:
    job = bench.submit("asks", {"effects": [effect(amount=82_000)]}).run()
    with pytest.raises(Refused, match="twice"):
        job.approve("refund", edit=[effect(amount=41_000), effect(amount=820_000)])
    assert job.status == "waiting"


def test_an_edit_without_effects_is_agreed_on_by_its_value(bench: Bench) -> None:
    job = bench.submit("asks", {"prompt": "Which?", "quorum": 2}).run()
    job.approve("refund", by="ann", edit={"way": "left"})
    with pytest.raises(Refused, match="ann changed what"):
        job.approve("refund", by="bob")
    job.approve("refund", by="bob", edit={"way": "right"})
    assert job.status == "waiting"
    job.approve("refund", by="ann", edit={"way": "right"}).run()
    assert job.result == {"way": "right"}


def test_a_step_of_any_name_is_no_proposal_of_an_effect(bench: Bench) -> None:
    @app.job("steps")
    async def steps(ctx: Context) -> Any:
        await ctx.step("effect", dict, key="pay:refund/ch_1")
        return await ctx.effect("pay:refund", pay, key="ch_1", amount=1)

    bench.deploy(app)
    job = bench.submit("steps").run()
    assert (job.status, job.result) == ("succeeded", {"amount": 1})


@dataclass
class Money:
    """An argument with its fields in no order of the alphabet."""

    value: int
    currency: str


def test_an_edit_of_one_argument_leaves_a_dataclass_as_it_was(bench: Bench) -> None:
    @app.job("money")
    async def money(ctx: Context) -> Any:
        arguments = {"money": Money(82_000, "EUR"), "note": "x"}
        decision = await ctx.approval("refund", effects=[effect(**arguments)])
        await ctx.effect("pay:refund", pay, key="ch_1", **(arguments | decision.edit))

    bench.deploy(app)
    job = bench.submit("money").run()
    job.approve("refund", edit={"note": "y"}).run()
    assert (job.status, job.error) == ("succeeded", None)


def test_a_number_is_approved_as_it_is_written(bench: Bench) -> None:
    @app.job("numbers")
    async def numbers(ctx: Context) -> Any:
        asked = await ctx.approval("refund", effects=[effect(amount=1)])
        assert asked.approved
        try:
            await ctx.effect("pay:refund", pay, key="ch_1", amount=1.0)
        except PermanentError:
            return await ctx.effect("pay:refund", pay, key="ch_1", amount=1)

    bench.deploy(app)
    job = bench.submit("numbers").run()
    job.approve("refund").run()
    assert [call.args for call in job.calls] == [{"amount": 1}]


def test_people_are_shown_what_was_asked_even_if_the_handler_changes_it_later(bench: Bench) -> None:
    @app.job("changes")
    async def changes(ctx: Context) -> None:
        items = [1]
        decision = ctx.approval("refund", effects=[effect(items=items)])
        items.append(2)
        await decision

    bench.deploy(app)
    job = bench.submit("changes").run()
    (approval,) = bench._behind.pipeline.approvals(job.record)
    assert bench._behind.people.asked(approval)["arguments"] == [{"items": [1]}]


NOT_JSON = (float("nan"), 2**64, {1: 2}, "\ud800")


@app.job("odd")
async def odd(ctx: Context) -> None:
    await ctx.approval("refund", effects=[effect(amount=NOT_JSON[ctx.input])])


@pytest.mark.parametrize("which", range(len(NOT_JSON)))
def test_what_json_cannot_write_is_not_asked_for(bench: Bench, which: int) -> None:
    job = bench.submit("odd", which).run()
    assert (job.status, "is not JSON" in (job.error or "")) == ("failed", True)


DRAFT = "routes: []\njob_types: [{name: draft, draft: true}]\n"


def test_a_draft_with_another_argument_each_time_fails_closed(tmp_path: Path) -> None:
    runs = []

    @app.job("draft")
    async def draft(ctx: Context) -> None:
        runs.append(1)
        await ctx.effect("pay:refund", pay, key="ch_1", amount=len(runs))

    path = tmp_path / "topology.yaml"
    path.write_text(DRAFT)
    with Bench(app, topology=path) as bench:
        job = bench.submit("draft").run()
        job.approve("pay:refund/ch_1").run()
        assert (job.status, job.calls) == ("failed", [])
        assert "something else" in (job.error or "")
