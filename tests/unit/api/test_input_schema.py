"""The check of an input by its JSON schema: fields are named, values are not, time is bounded."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from streams.api.job_types.input_schema.check import misfits


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sku: Annotated[str, Field(pattern=r"^[A-Z]{2}\d+$")]
    amount: Annotated[int, Field(ge=1, lt=100)]


class Refund(BaseModel):
    kind: Literal["refund"]
    cents: int


class Cancel(BaseModel):
    kind: Literal["cancel"]
    reason: str = Field(max_length=5)


class Order(BaseModel):
    order_id: UUID
    lines: list[Line] = Field(default=[], max_length=3)
    due: date | None = None
    paid_at: datetime | None = None
    total: Decimal = Decimal(0)
    tags: set[str] = set()
    by_region: dict[str, Line] = {}
    then: Annotated[Refund | Cancel, Field(discriminator="kind")] | None = None


class Tree(BaseModel):
    left: Tree | None = None
    right: Tree | None = None


ORDER = json.dumps(TypeAdapter(Order).json_schema())
ID = "9f1c1f0e-8f0a-4f3c-9a57-0f1c1d0e2b3a"


def faults(**fields: Any) -> dict[str, str]:
    return dict(misfits(ORDER, json.dumps({"order_id": ID, **fields})))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"order_id": "s3cret"}, {"input.order_id": "must be a uuid"}),
        ({"due": "31.1.2026"}, {"input.due": "must be a date"}),
        ({"paid_at": "noon"}, {"input.paid_at": "must be a date-time"}),
        ({"tags": "a"}, {"input.tags": "must be of type array"}),
        (
            {"lines": [{"sku": "AB1", "amount": 100}]},
            {"input.lines.0.amount": "must be less than 100"},
        ),
        (
            {"lines": [{"sku": "s3cret", "amount": 1}]},
            {"input.lines.0.sku": r"must match ^[A-Z]{2}\d+$"},
        ),
        ({"lines": [{"amount": 1}]}, {"input.lines.0.sku": "must be given"}),
        (
            {"lines": [{"sku": "AB1", "amount": 1, "more": "s3cret"}]},
            {"input.lines.0.more": "there is no such field"},
        ),
        (
            {"lines": [{"sku": "AB1", "amount": 1}] * 4},
            {"input.lines": "must have at most 3 items"},
        ),
        ({"by_region": {"eu": {"sku": "AB1"}}}, {"input.by_region.eu.amount": "must be given"}),
        ({"then": {"kind": "refund"}}, {"input.then.cents": "must be given"}),
        ({"then": {"kind": "s3cret"}}, {"input.then.kind": "must be one of cancel, refund"}),
        ({"then": {"cents": 1}}, {"input.then.kind": "must be given"}),
        (
            {"then": {"kind": "cancel", "reason": "s3cret"}},
            {"input.then.reason": "must have at most 5 characters"},
        ),
    ],
    ids=str,
)
def test_each_fault_is_at_its_field_and_has_no_value(
    fields: dict[str, Any], told: dict[str, str]
) -> None:
    found = faults(**fields)
    assert found == told
    assert "s3cret" not in str(found)


def test_all_faults_are_named_up_to_twenty() -> None:
    assert set(faults(due=7, tags=7)) == {"input.due", "input.tags"}
    many = json.dumps({"order_id": ID, "by_region": {f"r{n}": {} for n in range(50)}})
    assert len(misfits(ORDER, many)) == 20


@pytest.mark.parametrize("text", ["7", "null", "[]", '"s3cret"'])
def test_an_input_that_is_no_object_is_named_itself(text: str) -> None:
    assert misfits(ORDER, text) == [("input", "must be of type object")]


def test_what_the_worker_takes_and_the_schema_does_not_say_is_left_to_it() -> None:
    assert faults(tags=["a", "a"], total="1.5", more=1, paid_at="2026-01-31") == {}
    assert faults(paid_at="2026-01-31t10:00:00.5z") == {}


orders = st.builds(
    Order,
    order_id=st.uuids(),
    lines=st.lists(st.builds(Line, sku=st.just("AB1"), amount=st.integers(1, 99)), max_size=3),
    due=st.none() | st.dates(),
    paid_at=st.none() | st.datetimes(timezones=st.none() | st.just(UTC)),
    total=st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=0, max_value=9),
    tags=st.sets(st.text(max_size=3)),
    then=st.none() | st.builds(Refund, kind=st.just("refund"), cents=st.integers()),
)


@given(orders)
def test_whatever_the_model_writes_is_accepted(order: Order) -> None:
    assert misfits(ORDER, order.model_dump_json()) == []


def nested(depth: int, value: Any, name: str = "left") -> Any:
    for _ in range(depth):
        value = {name: value}
    return value


def test_a_schema_that_names_itself_is_checked_as_deep_as_python_goes() -> None:
    tree = json.dumps(TypeAdapter(Tree).json_schema())
    assert misfits(tree, json.dumps(nested(5, 7))) == [
        ("input.left.left.left.left.left", "fits none of its types")
    ]
    assert misfits(tree, json.dumps(nested(900, {}))) == [], "it is left to the worker"


def test_a_check_that_would_take_exponential_time_is_given_up() -> None:
    node = {
        "type": "object",
        "properties": {"child": {"$ref": "#/$defs/Node"}},
        "required": ["child"],
    }
    union = {"anyOf": [node, node]}
    schema = json.dumps({"$defs": {"Node": union}, "$ref": "#/$defs/Node"})
    assert misfits(schema, json.dumps(nested(60, 7, "child"))) == []


MANY = {f"k{n}": 0 for n in range(20_000)}


@pytest.mark.parametrize(
    ("type_", "few", "many"),
    [
        (list[Line] | list[Refund], [0], [0] * 20_000),
        (list[str], [0], [0] * 20_000),
        (dict[str, Line] | dict[str, Refund], {"k": 0}, MANY),
        (dict[str, str], {"k": 0}, MANY),
    ],
    ids=["lists", "list", "objects", "object"],
)
def test_an_input_of_many_values_is_left_to_the_worker(type_: Any, few: Any, many: Any) -> None:
    schema = json.dumps(TypeAdapter(type_).json_schema())
    assert misfits(schema, json.dumps(few)) != []
    assert misfits(schema, json.dumps(many)) == []


def test_a_list_of_what_is_allowed_is_not_repeated_for_each_fault() -> None:
    """The library writes it, and the value, into each error that a union collects."""
    countries = [f"country {n}" for n in range(900)]
    some = {"anyOf": [{"type": "array", "items": {"enum": countries}}, {"type": "null"}]}
    wrong = json.dumps(["nowhere"] * 4_000)
    tracemalloc.start()
    try:
        assert [field for field, _ in misfits(json.dumps(some), wrong)] == ["input.0"]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000_000


def test_a_huge_enum_is_checked_for_as_many_values_as_time_allows() -> None:
    schema = json.dumps({"type": "array", "items": {"enum": [f"v{n}" for n in range(50_000)]}})
    assert misfits(schema, json.dumps(["v49999"] * 10)) == []
    ((field, told),) = misfits(schema, '["w"]')
    assert (field, told[:24], len(told)) == ("input.0", 'must be one of ["v0","v1', 200)
    assert misfits(schema, json.dumps(["w"] * 1_000 + ["v1"])) != []
    assert misfits(schema, json.dumps(["v1"] * 1_000 + ["w"])) == [], "it is left to the worker"


def test_many_fields_that_are_missing_in_many_members_of_a_union_are_left_to_the_worker() -> None:
    fields = [f"f{n}" for n in range(20)]
    members = [{"type": "object", "required": [*fields, f"m{n}"]} for n in range(60)]
    lists = {"type": "array", "items": {"anyOf": members}}
    schema = json.dumps({"anyOf": [lists, {"type": "null"}]})
    assert misfits(schema, "[{}]") == [("input.0", "fits none of its types")]
    tracemalloc.start()
    try:
        assert misfits(schema, json.dumps([{}] * 150)) == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 40_000_000


def test_one_is_not_true_in_an_enum_either() -> None:
    schema = json.dumps({"enum": [1, 2.5, False, None, [1]]})
    fit = [
        text for text in ("1", "1.0", "2.5", "false", "null", "[1]") if not misfits(schema, text)
    ]
    assert fit == ["1", "1.0", "2.5", "false", "null", "[1]"]
    assert [misfits(schema, text) == [] for text in ("true", "0", '"1"', "{}")] == [False] * 4


def test_a_value_in_a_deep_nest_is_not_repeated_at_each_level() -> None:
    scalars = [{"type": name} for name in ("integer", "boolean", "null", "number")]
    deeper = {"type": "array", "items": {"$ref": "#/$defs/Any"}}
    schema = json.dumps({"$defs": {"Any": {"anyOf": [deeper, *scalars]}}, "$ref": "#/$defs/Any"})
    value: Any = "x" * 200_000
    for _ in range(100):
        value = [value]
    tracemalloc.start()
    try:
        assert len(misfits(schema, json.dumps(value))) == 1
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000_000


class First(BaseModel):
    version: Literal[1]
    paid: Literal[True]
    cents: int


class Second(BaseModel):
    version: Literal[2]
    paid: Literal[False]
    cents: int


@pytest.mark.parametrize("tag", ["version", "paid"])
def test_a_tag_may_be_a_number_or_a_boolean(tag: str) -> None:
    union = Annotated[First | Second, Field(discriminator=tag)]
    schema = json.dumps(TypeAdapter(union).json_schema())
    for one in (First(version=1, paid=True, cents=5), Second(version=2, paid=False, cents=5)):
        assert misfits(schema, one.model_dump_json()) == []
    assert misfits(schema, '{"version": 1, "paid": true}') == [("input.cents", "must be given")]
    ((field, _),) = misfits(schema, '{"version": 3, "paid": [], "cents": 5}')
    assert field == f"input.{tag}"
    wrong = json.dumps({"version": "1", "paid": "true", "cents": 5})
    assert misfits(schema, wrong) != [], "a text is no number"


class Price(BaseModel):
    amount: Annotated[float, Field(multiple_of=0.01)]


@pytest.mark.parametrize("amount", [0.07, 1.1, 19.99, 100, -0.07, 0])
def test_a_multiple_of_a_fraction_is_one_as_for_the_worker(amount: float) -> None:
    schema = json.dumps(Price.model_json_schema())
    assert Price(amount=amount).amount == amount
    assert misfits(schema, json.dumps({"amount": amount})) == []


def test_what_is_no_multiple_is_named() -> None:
    schema = json.dumps(Price.model_json_schema())
    assert misfits(schema, '{"amount": 0.075}') == [("input.amount", "must be a multiple of 0.01")]
    whole = json.dumps({"type": "integer", "multipleOf": 3})
    assert misfits(whole, "9") == []
    assert misfits(whole, "10") == [("input", "must be a multiple of 3")]
    assert misfits(whole, "9" * 400) == []


def test_a_pattern_takes_linear_time() -> None:
    evil = json.dumps({"type": "string", "pattern": "^(a+)+$"})
    assert misfits(evil, json.dumps("a" * 50_000 + "!")) == [("input", "must match ^(a+)+$")]
    ahead = json.dumps({"type": "string", "pattern": "^(?=a)b$"})
    assert misfits(ahead, '"c"') == [], "only the worker's engine knows it"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"$ref": "#/$defs/Missing"},
        {"type": "no type"},
        {"required": 7},
        {"oneOf": [{}, {}], "discriminator": "kind"},
        7,
    ],
    ids=str,
)
def test_a_schema_that_is_none_or_lies_elsewhere_checks_nothing(schema: Any) -> None:
    assert misfits(json.dumps(schema), "{}") == []
