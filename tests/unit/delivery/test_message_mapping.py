"""A mapping gives what it selects, or says why not, at bounded cost."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from support.outgoing import rendered

from streams.delivery.message.formats import mapping_fault
from streams.errors import MappingFailed

DOUBLING = "|".join(["[@,@]"] * 60)
COSTLY = [
    DOUBLING,
    f"to_string({DOUBLING})",
    f"({DOUBLING}) == ({DOUBLING})",
    " | ".join(["join('', [@, @])"] * 40).replace("@", "to_string(@)", 2),
    " | ".join(["[@, @][]"] * 60),
    "data.many[*].[" + ",".join(["to_string(@)"] * 40) + "][]",
    "join(to_string(data.many), data.many[*].to_string(@))",
    "data.many[?" + " || ".join(["@ == `-1`"] * 50) + "]",
]


def mapped(mapping: str, data: Any, **changes: Any) -> Any:
    return orjson.loads(
        rendered("mapped", mapping, data=json.dumps(data, ensure_ascii=False).encode(), **changes)
    )


def test_a_mapping_selects_from_the_whole_document() -> None:
    found = mapped(
        "{kind: type, who: data.user.name, all: data.items[*].id}",
        {"user": {"name": "Ann"}, "items": [{"id": 1}, {"id": 2}]},
    )
    assert found == {"kind": "ticket.created", "who": "Ann", "all": [1, 2]}


def test_a_mapping_sees_a_form_in_base64() -> None:
    changed = rendered("mapped", "data_base64", data=b"a=1", content_type="text/plain")
    assert orjson.loads(changed) == "YT0x"


def test_a_large_body_is_mapped_by_many_fields() -> None:
    data = {"filler": "x" * 900_000, "items": [{"id": n, "name": "n"} for n in range(2_000)]}
    fields = ", ".join(f"f{n}: data.items[{n}].name" for n in range(30))
    assert len(mapped(f"{{{fields}, ids: data.items[*].id}}", data)["ids"]) == 2_000


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ("data.absent", "null"),
        ("length(data.secret)", r"length\(\) does not take a value of type number"),
        ("sort(data.mixed)", "sort"),
        ("sort_by(data.pairs, &k)", "sort_by"),
        ("nonsense(@)", "UnknownFunctionError"),
        ("&data", "no JSON"),
        ("data.long", "an integer has more than 64 bits"),
        ("sum([data.large, data.large])", "NaN or infinite"),
    ],
)
def test_a_mapping_that_fails_says_why_and_repeats_nothing(mapping: str, told: str) -> None:
    data = {
        "secret": 4711,
        "long": 10**20 + 1,
        "large": 1e308,
        "mixed": ["s3cret", 1],
        "pairs": [{"k": "s3cret"}, {"k": 4711}],
    }
    with pytest.raises(MappingFailed, match=told) as caught:
        mapped(mapping, data)
    assert not any(text in str(caught.value) for text in ("4711", "s3cret"))


@pytest.mark.parametrize("mapping", COSTLY)
def test_a_small_expression_cannot_make_a_huge_value(mapping: str) -> None:
    assert mapping_fault(mapping) is None
    with pytest.raises(MappingFailed, match=r"costs too much|larger than 1 MiB"):
        mapped(mapping, {"many": list(range(100_000))})


def test_body_result_and_depth_are_bounded() -> None:
    with pytest.raises(MappingFailed, match="body is larger"):
        mapped("type", "x" * 1024 * 1024)
    with pytest.raises(MappingFailed, match="result is larger"):
        mapped("[data, data]", "\u00e9" * 300_000)
    for depth in (300, 1_000):
        with pytest.raises(MappingFailed, match="nested too deep"):
            rendered("mapped", "data", data=b"[" * depth + b"]" * depth)


def test_a_format_without_its_mapping_is_told() -> None:
    with pytest.raises(MappingFailed, match="no mapping"):
        rendered("mapped", None)


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ("a.[b", "no JMESPath"),
        ("", "no JMESPath"),
        ("x" * 1_001, "1,000"),
        ("(" * 500 + "a" + ")" * 499, "nested too deep"),
        ("[?starts_wiht(a, 'b')]", "starts_wiht() is no function"),
    ],
)
def test_a_mapping_with_a_fault_is_refused_by_it(mapping: str, told: str) -> None:
    assert told in (mapping_fault(mapping) or "")
