"""JSON paths to secret fields, in the notation of RFC 9535."""

from __future__ import annotations

from typing import Any

import pytest

from streams.redaction.paths import Fields, parsed

VALUE: dict[str, Any] = {
    "id": 7,
    "customer": {"name": "Ann", "password": "x", "cards": [{"no": 1}, {"no": 2}]},
    "a name": {"password": ["y"]},
    "password": None,
}


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("$.id", "id"),
        ("$.customer.name", "customer.name"),
        ("$['a name'].password", "a name.password"),
        ('$["a name"]', "a name"),
        ("$.customer.cards[1].no", "customer.cards.1.no"),
        ("$.customer.cards[*].no", "customer.cards.0.no customer.cards.1.no"),
        ("$..no", "customer.cards.0.no customer.cards.1.no"),
        ("$..password", "customer.password a name.password password"),
        ("$.customer..no", "customer.cards.0.no customer.cards.1.no"),
        ("$..cards[0]", "customer.cards.0"),
        ("$..['a name']", "a name"),
        ("$.customer.*", "customer.name customer.password customer.cards"),
        ("$.nobody.here", ""),
        ("$.customer[0]", ""),
        ("$.id.deeper", ""),
    ],
)
def test_a_path_leads_to_its_fields_alone(path: str, gone: str) -> None:
    found = Fields([path]).out_of(VALUE)
    wanted = gone.replace("a name", "a_name").split()
    assert sorted(_marked(found)) == sorted(each.replace("a_name", "a name") for each in wanted)


def _marked(value: Any, at: str = "") -> list[str]:
    if value == "[redacted]":
        return [at[1:]]
    if not isinstance(value, dict | list):
        return []
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [place for key, each in inner for place in _marked(each, f"{at}.{key}")]


def test_several_paths_hold_at_once() -> None:
    found = Fields(["$.id", "$..name"]).out_of(VALUE)
    assert sorted(_marked(found)) == ["customer.name", "id"]
    assert VALUE["id"] == 7


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "id",
        "$.",
        "$..",
        "$.a.",
        "$.a..",
        "$[",
        "$[]",
        "$[a]",
        "$.a[?@.b]",
        "$[1:2]",
        "$a",
        "$.a b",
        "$['']",
        "$[-1]",
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a path as \$\.customer"):
        parsed(text)
