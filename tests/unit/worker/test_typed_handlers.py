"""A handler's annotations type its input and its result: both are checked when it runs."""

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    field_validator,
)
from pydantic_core import core_schema
from support.worker_bench import bench
from typing_extensions import TypedDict

from streams import App, Context
from streams.errors import ConfigError
from streams.serde.records import Ended
from streams.testing import Bench
from streams.testing.job import Job
from streams.worker.app_loader import load_app

if TYPE_CHECKING:
    from collections import OrderedDict as ForMypyAlone


class Line(BaseModel):
    sku: str
    amount: Annotated[int, Field(gt=0)]


class Order(BaseModel):
    order_id: str
    lines: list[Line] = []
    due: date | None = None


@dataclass
class Charge:
    charge_id: str
    cents: int


class Parcel(TypedDict):
    parcel_id: str
    grams: int


class Receipt(BaseModel):
    paid: Decimal
    order_id: str = Field(alias="orderId")


class Nested(BaseModel):
    inner: "Nested | None" = None


def app_of(function: Any) -> App:
    app = App("shop")
    app.job("job")(function)
    return app


def unchanged(order: Order) -> Order:
    return order


def ran(function: Any, input: object = None, **body: Any) -> Job:
    """The job of a submission, or of an event with a `payload`."""
    with Bench(app_of(function)) as at:
        job = at.event("order.paid", **body) if body else at.submit("job", input)
        return job.run()


async def ended(app: App, input: object) -> Ended:
    """How a run of the job type `job` ended whose input nobody has checked before."""
    async with bench(app) as at:
        return await at.ended(at.give(input=json.dumps(input)))


async def error_of(function: Any, input: object) -> str:
    found = await ended(app_of(function), input)
    assert found.status == "failed"
    return found.error or ""


def test_a_model_is_made_of_the_input() -> None:
    async def handler(ctx: Context[Order]) -> list[Any]:
        assert isinstance(ctx.input, Order)
        return [ctx.input.order_id, ctx.input.lines[0].amount, ctx.input.due]

    given = {"order_id": "o1", "lines": [{"sku": "a", "amount": 2}], "due": "2026-01-31"}
    assert ran(handler, given).result == ["o1", 2, "2026-01-31"]


async def test_a_dataclass_and_a_typed_dict_are_types_too() -> None:
    async def charge(ctx: Context[Charge]) -> int:
        return ctx.input.cents

    async def parcel(ctx: Context[Parcel]) -> int:
        return ctx.input["grams"]

    async def either(ctx: Context[Charge | Order | list[int]]) -> str:
        return type(ctx.input).__name__

    assert ran(charge, {"charge_id": "c", "cents": 5}).result == 5
    assert ran(parcel, {"parcel_id": "p", "grams": 7}).result == 7
    assert ran(either, {"order_id": "o"}).result == "Order"
    assert ran(either, [1]).result == "list"
    assert "parcel_id: must be given" in await error_of(parcel, {"grams": 1})


async def test_an_input_that_does_not_fit_fails_before_the_preflight_and_names_each_field() -> None:
    begun = []

    async def handler(ctx: Context[Order]) -> None:
        begun.append("handler")

    async def wanted(ctx: Context) -> bool:
        begun.append("preflight")
        return True

    app = app_of(handler)
    app.preflight("job")(wanted)
    wrong = {"lines": [{"sku": "a", "amount": 0}, {"amount": "s3cret"}]}
    found = await ended(app, wrong)
    assert (found.status, found.traceback, begun) == ("failed", None, [])
    told = found.error or ""
    assert told.startswith("PermanentError: the input does not fit Order: ")
    for named in ("order_id: must be given", "lines.0.amount: ", "lines.1.sku: must be given"):
        assert named in told
    assert "s3cret" not in told, "a value may be a secret"


async def test_of_many_faults_the_first_are_named() -> None:
    async def handler(ctx: Context[list[Line]]) -> None: ...

    told = await error_of(handler, [{"sku": "a"}] * 15)
    assert "9.amount: must be given; 5 more faults" in told
    assert "10.amount" not in told
    assert "20,000 more faults" in await error_of(handler, [0] * 20_000)


async def test_a_long_name_above_many_faults_is_not_copied_for_each() -> None:
    """Each of pydantic's errors has the names on its way: these would have 5 GB."""

    async def handler(ctx: Context[dict[str, list[str]]]) -> None: ...

    told = await error_of(handler, {"k" * 100_000: [0] * 50_000})
    assert told.endswith("input: has too long names for so many values")
    assert "50,000 more faults" in await error_of(handler, {"k" * 100: [0] * 50_000})


def test_a_body_with_a_long_name_above_many_faults_fails_its_job_and_not_its_worker() -> None:
    async def handler(ctx: Context[dict[str, dict[str, int]]]) -> None: ...

    body = {"k" * 400_000: {f"{n}": "" for n in range(30_000)}}
    job = ran(handler, payload=body)
    assert job.status == "failed"
    assert (job.error or "").endswith("input: has too long names for so many values")


UNKNOWN_EVENT = """
import resource
from functools import reduce
from operator import or_
from pydantic import create_model
from streams import App, Context
from streams.testing import Bench

kinds = [create_model(f"M{n}", **{f"m{n}_{f}": (int, ...) for f in range(10)}) for n in range(10)]
app = App("shop")


async def handler(ctx: Context) -> None: ...


handler.__annotations__["ctx"] = Context[reduce(or_, kinds)]
app.job("job")(handler)
with Bench(app) as at:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(at.event("order.paid", {"other": [1] * 300_000}).run().error)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_large_value_is_not_copied_for_each_field_that_is_missing() -> None:
    """Pydantic has the whole object in each error: this one took a gigabyte."""
    ran = subprocess.run(
        [sys.executable, "-c", UNKNOWN_EVENT], capture_output=True, text=True, check=True
    )
    *_, error, mebibytes = ran.stdout.splitlines()
    assert "M0.m0_0: must be given" in error
    assert "90 more faults" in error
    assert int(mebibytes) < 300


def test_a_large_document_may_have_values_that_only_its_json_fits() -> None:
    class Point:
        """Made of JSON's text alone."""

        @classmethod
        def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
            of_json = core_schema.no_info_after_validator_function(
                lambda _: cls(), core_schema.str_schema()
            )
            return core_schema.json_or_python_schema(of_json, core_schema.is_instance_schema(cls))

        @classmethod
        def __get_pydantic_json_schema__(cls, *_: Any) -> dict[str, str]:
            return {"type": "string"}

    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        due: date
        points: list[Point]

    async def handler(ctx: Context[Strict]) -> int:
        return len(ctx.input.points)

    given = {"due": "2026-01-31", "points": ["x" * 10] * 9_000}
    assert ran(handler, payload=given).result == 9_000


async def test_long_messages_and_names_leave_room_for_the_other_fields() -> None:
    countries = tuple(f"country {n}" for n in range(2_000))

    async def handler(ctx: Context[dict[str, Literal[countries]]]) -> None: ...  # type: ignore[valid-type]

    told = await error_of(handler, {"a": "x", "b" * 5_000: "x", "c": "x"})
    for named in ("a: Input should be 'country 0', ", "; bbb", "; c: Input should be"):
        assert named in told
    assert "5,000 more faults" in await error_of(handler, {f"{n}": "x" for n in range(5_000)})


def test_a_preflight_and_the_handler_see_the_same_input() -> None:
    seen = []

    async def handler(ctx: Context[Order]) -> None:
        seen.append(ctx.input)

    async def wanted(ctx: Context[Order]) -> bool:
        seen.append(ctx.input)
        return ctx.input.order_id == "o"

    app = app_of(handler)
    app.preflight("job")(wanted)
    with Bench(app) as bench:
        assert bench.submit("job", {"order_id": "o"}).run().status == "succeeded"
    assert seen[0] is seen[1]


def test_the_input_of_an_events_job_is_made_of_its_body() -> None:
    async def handler(ctx: Context[Order]) -> str:
        assert ctx.event is not None
        return ctx.input.order_id

    assert ran(handler, payload={"order_id": "o"}).result == "o"
    assert ran(handler, payload=b"payload=%7B%22order_id%22%3A%22form%22%7D").result == "form"
    wrong = ran(handler, payload={"id": "o"})
    assert (wrong.status, "order_id: must be given" in (wrong.error or "")) == ("failed", True)
    text = ran(handler, payload=b"no JSON")
    assert (text.status, "holds no JSON" in (text.error or "")) == ("failed", True)


def test_a_large_body_becomes_an_input() -> None:
    async def handler(ctx: Context[Order]) -> int:
        return len(ctx.input.order_id)

    assert ran(handler, payload={"order_id": "x" * 900_000}).result == 900_000


def test_a_job_that_begins_anew_has_the_input_that_it_gave_itself() -> None:
    async def handler(ctx: Context[Order]) -> str:
        if ctx.input.order_id == "first":
            ctx.continue_as_new({"order_id": "second"})
        return ctx.input.order_id

    assert ran(handler, payload={"order_id": "first"}).result == "second"


def test_an_untyped_handler_has_the_input_as_it_is_and_none_for_an_event() -> None:
    async def handler(ctx: Context) -> Any:
        return ctx.input

    async def anything(ctx: Context[Any]) -> Any:
        return ctx.input

    assert ran(handler, {"any": ["thing"]}).result == {"any": ["thing"]}
    assert ran(anything, 7).result == 7
    assert ran(handler, payload={"a": 1}).result is None


def test_a_typed_result_is_checked_and_kept_as_its_type_writes_it() -> None:
    async def model(ctx: Context) -> Receipt:
        return Receipt(paid=Decimal("1.50"), orderId="o")

    async def of_a_dict(ctx: Context) -> Receipt:
        return {"paid": "1.5", "orderId": "o"}  # type: ignore[return-value]

    async def several(ctx: Context) -> list[Charge] | None:
        return [Charge("c", 1)]

    assert ran(model).result == {"paid": "1.50", "orderId": "o"}
    assert ran(of_a_dict).result == {"paid": "1.5", "orderId": "o"}
    assert ran(several).result == [{"charge_id": "c", "cents": 1}]


async def test_a_result_that_does_not_fit_fails_the_job_and_names_the_field() -> None:
    async def missing(ctx: Context) -> Parcel:
        return {"parcel_id": "p"}  # type: ignore[typeddict-item]

    async def other(ctx: Context) -> Charge:
        return Charge("c", "s3cret")  # type: ignore[arg-type]

    async def nothing(ctx: Context) -> Receipt:
        return None  # type: ignore[return-value]

    async def not_json(ctx: Context) -> Receipt:
        return Receipt.model_construct(paid=Decimal(1), order_id="\ud800")

    for handler, named in (
        (missing, "the result does not fit Parcel: grams: must be given"),
        (other, "the result does not fit Charge: cents: has a value of another type"),
        (nothing, "the result does not fit Receipt: result: "),
        (not_json, "lone surrogate"),
    ):
        told = await error_of(handler, {})
        assert named in told
        assert "s3cret" not in told


def test_a_plain_annotation_of_the_result_says_nothing() -> None:
    async def handler(ctx: Context) -> dict[str, int]:
        return {"a": "b"}  # type: ignore[dict-item]

    assert ran(handler).result == {"a": "b"}


def test_models_are_json_where_a_handler_passes_them_on() -> None:
    async def keep(ctx: Context[Order]) -> Any:
        kept = await ctx.step("keep", unchanged, ctx.input)
        await ctx.progress({"now": ctx.input})
        return {"kept": kept, "of": [ctx.input]}

    order: dict[str, Any] = {"order_id": "o", "lines": [], "due": None}
    assert ran(keep, {"order_id": "o"}).result == {"kept": order, "of": [order]}


async def test_a_model_with_nan_in_it_is_refused_as_any_value_is() -> None:
    class Loose(BaseModel):
        rate: float | None

    async def handler(ctx: Context) -> Any:
        return [Loose(rate=float("nan"))]

    async def typed(ctx: Context) -> Loose:
        return Loose(rate=float("inf"))

    assert "NaN or infinite" in await error_of(handler, {})
    assert "NaN or infinite" in await error_of(typed, {})


@pytest.mark.parametrize(("depth", "status"), [(150, "succeeded"), (900, "failed")])
def test_a_deep_nest_has_a_clear_end(depth: int, status: str) -> None:
    async def handler(ctx: Context[Nested]) -> str:
        return "seen"

    job = ran(handler, payload=b'{"inner":' * depth + b"{}" + b"}" * depth)
    assert (job.status, job.attempts) == (status, 1)
    assert ("does not fit Nested: " in (job.error or "")) == (status == "failed")


def test_long_integers_are_exact() -> None:
    async def handler(ctx: Context[dict[str, int]]) -> str:
        return str(ctx.input["n"])

    long = 79_228_162_514_264_337_593_543_950_337
    body = b'{"n": %d}' % long
    assert ran(handler, payload=body).result == str(long)


async def test_an_error_of_ones_own_validator_is_told() -> None:
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

    async def handler(ctx: Context[Even]) -> int:
        return ctx.input.number

    assert ran(handler, {"number": 2}).result == 2
    assert "number: must be even" in await error_of(handler, {"number": 3})


def test_types_that_are_defined_below_their_handler_are_found_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
from __future__ import annotations

from pydantic import BaseModel
from streams import App, Context

app = App("shop")


@app.job("job")
async def handler(ctx: Context[Later]) -> Later:
    return ctx.input


class Later(BaseModel):
    even_later: EvenLater


class EvenLater(BaseModel):
    number: int
"""
    (tmp_path / "defined_later.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    app = load_app("defined_later:app")
    with Bench(app) as at:
        given = {"even_later": {"number": 1}}
        assert at.submit("job", given).run().result == given


def test_local_types_are_found_where_the_handler_is_declared() -> None:
    class Local(BaseModel):
        number: int

    app = App("shop")

    @app.job("job")
    async def handler(ctx: "Context[Local]") -> "list[Local]":
        return [ctx.input]

    with Bench(app) as at:
        assert at.submit("job", {"number": 1}).run().result == [{"number": 1}]


def test_a_decorated_handler_and_one_with_defaults_are_typed_too() -> None:
    def logged(function: Any) -> Any:
        @wraps(function)
        async def wrapper(*args: Any) -> Any:
            return await function(*args)

        return wrapper

    @logged
    async def handler(ctx: Context[Order], more: int = 1) -> str:
        return ctx.input.order_id

    assert ran(handler, {"order_id": "o"}).result == "o"


def test_an_annotation_for_a_type_checker_alone_types_nothing() -> None:
    async def handler(ctx: Context) -> "ForMypyAlone[str, int]":
        return {"a": 1}  # type: ignore[return-value]

    assert ran(handler, {"b": 2}).result == {"a": 1}


def test_a_type_of_input_that_cannot_be_read_ends_the_start() -> None:
    async def handler(ctx: "Context[ForMypyAlone[str, int]]") -> None: ...

    app = app_of(handler)
    with pytest.raises(ConfigError, match=r"job type 'job': .*'ForMypyAlone' is not defined"):
        app.check_effects()


@pytest.mark.parametrize("side", ["input", "result"])
def test_what_cannot_be_a_type_of_json_is_refused_where_it_stands(side: str) -> None:
    class Wire: ...

    class Broken(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        wire: Wire

    async def of_input(ctx: Context[Wire]) -> None: ...

    async def of_result(ctx: Context) -> Broken:
        return Broken(wire=Wire())

    with pytest.raises(
        ConfigError, match=f"job type 'job': the {side} .* cannot be a type of JSON"
    ):
        app_of({"input": of_input, "result": of_result}[side])


def test_a_schedules_input_is_checked_at_the_start() -> None:
    async def handler(ctx: Context[Order]) -> None: ...

    app = app_of(handler)
    app.schedule("0 9 * * *", job="job", input={"order_id": 7})
    with pytest.raises(ConfigError, match=r"schedule 'job' of 'job': .*order_id: "):
        app.check_effects()


class Folder(BaseModel):
    kind: Literal["folder"] = "folder"
    inside: "list[Folder | Album] | None" = None


class Album(BaseModel):
    kind: Literal["album"] = "album"
    inside: "list[Folder | Album] | None" = None


class Twice(BaseModel):
    of: "dict[str, Twice] | Twice | None" = None


class TwiceByKey(BaseModel):
    of: "dict[Annotated[str, Field(pattern='^o')], TwiceByKey] | TwiceByKey | None" = None


class Told(BaseModel):
    op: Literal["told"]
    of: "Annotated[Told | Negated, Field(discriminator='op')] | None" = None


class Negated(BaseModel):
    op: Literal["negated"]
    of: "Annotated[Told | Negated, Field(discriminator='op')] | None" = None


def kind_of(value: Any) -> str:
    return str(value["kind"] if isinstance(value, dict) else value.kind)


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    of: "Item | None" = None


class Pair(BaseModel):
    kind: Literal["pair"] = "pair"
    of: "Item | None" = None


Item = Annotated[
    Annotated[Leaf, Tag("leaf")] | Annotated[Pair, Tag("pair")], Discriminator(kind_of)
]


class Either(BaseModel):
    of: "Either | list[Either] | dict[str, int] | None" = None


class Add(BaseModel):
    left: "Add | Negate | int"
    right: "Add | Negate | int"


class Negate(BaseModel):
    value: "Add | Negate | int"


def typed(type_: Any) -> App:
    async def handler(ctx: Context) -> None: ...

    handler.__annotations__["ctx"] = Context[type_]
    return app_of(handler)


@pytest.mark.parametrize(
    "type_", [Folder, list[Folder | Album], dict[str, list[Album]], Twice, TwiceByKey]
)
def test_a_union_that_takes_exponential_time_is_refused_where_it_stands(type_: Any) -> None:
    """Each level of a nest doubles the work, and no thread of the worker runs meanwhile."""
    with pytest.raises(ConfigError, match=r"job type 'job': .* Give it a discriminator"):
        typed(type_)


@pytest.mark.parametrize("type_", [Told, Leaf, Either, Nested, dict[str, JsonValue], Add | Negate])
def test_a_union_is_taken_whose_members_hold_it_in_different_places(type_: Any) -> None:
    assert typed(type_).announced().types[0].input_schema is not None


async def test_a_discriminated_union_is_checked_by_its_branch() -> None:
    class Refund(BaseModel):
        kind: Literal["refund"]
        cents: int

    class Cancel(BaseModel):
        kind: Literal["cancel"]

    Wanted = Annotated[Refund | Cancel, Field(discriminator="kind")]

    async def handler(ctx: Context[Wanted]) -> str:
        return ctx.input.kind

    assert ran(handler, {"kind": "cancel"}).result == "cancel"
    assert "refund.cents: must be given" in await error_of(handler, {"kind": "refund"})
    told = await error_of(handler, {"kind": "s3cret expected tags: "})
    assert told.endswith("input: its tag must be one of 'refund', 'cancel'"), "and no value"
