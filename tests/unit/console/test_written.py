"""How values are written on pages, whatever they are."""

from __future__ import annotations

import json

import orjson
import pytest

from streams.console.serving.written import as_json, visible


@pytest.mark.parametrize(
    "odd",
    [
        "\x00",
        "\x1b",
        "\u00ad",
        "\u115f",
        "\u180e",
        "\u200b",
        "\u202e",
        "\u2066",
        "\u3164",
        "\ufeff",
        "\U000e0041",
        "\ud800",
    ],
)
def test_what_is_not_seen_is_written_as_json_escapes_it(odd: str) -> None:
    shown = visible(f"a{odd}b")
    assert shown.isascii()
    assert json.loads(f'"{shown}"') == f"a{odd}b"


def test_what_people_write_stays_as_it_is() -> None:
    text = "Grüße, 你好, שלום, ❤\ufe0f, क्षत्रिय\n\ttabs"
    assert visible(text) == text


@pytest.mark.parametrize("depth", [300, 1_023])
def test_json_of_any_depth_is_written(depth: int) -> None:
    assert as_json(orjson.loads("[" * depth + "]" * depth))
