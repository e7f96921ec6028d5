"""Schemas for consumers of one's own: by id and by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.schema_versions import LATER, another_version

from streams.errors import ConfigError
from streams.schemas import schema
from streams.serde.schemas import by_id, current

ROOT = Path(__file__).parents[3]


def test_a_schema_is_found_by_its_id_and_the_newest_by_its_name(tmp_path: Path) -> None:
    with another_version("envelope", tmp_path, LATER):
        first, second = (s.id for s in by_id().values() if s.name == "envelope")
        assert schema("envelope") == schema(second) != schema(first)
        assert schema(first)["name"] == schema(second)["name"] == "tidegate.Envelope"


def test_an_unknown_schema_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"no schema has the id 9999.*install the version"):
        schema(9999)
    with pytest.raises(ConfigError, match="no schema named 'events'"):
        schema("events")


def test_the_page_shows_the_id_and_the_version_of_events() -> None:
    page = (ROOT / "docs/read-the-events.md").read_text()
    newest = current("envelope")
    frame = newest.id.to_bytes(4, "big").hex(" ")
    assert f"| `{frame}` | id {newest.id}," in page
    assert f"`schemas/history/envelope.{newest.version}.avsc`" in page
    assert f"`schema({newest.id})`" in page
