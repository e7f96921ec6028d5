"""The dashboards: that Grafana can take them, and that every panel says what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.queries import DASHBOARDS, panels

dashboards = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


@dashboards
def test_it_takes_its_datasource_and_namespace_from_variables(path: Path) -> None:
    found = json.loads(path.read_text())
    assert found["uid"] == path.stem
    assert [each["name"] for each in found["templating"]["list"]] == ["datasource", "namespace"]
    for panel in panels(path):
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {source["uid"] for source in sources} == {"${datasource}"}


@dashboards
def test_its_panels_have_titles_units_and_places_of_their_own(path: Path) -> None:
    found = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    assert len({panel["title"] for panel in found}) == len(found)
    taken = set[tuple[int, int]]()
    for panel in found:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in panels(path))


def test_all_are_reached_from_each_other() -> None:
    for path in DASHBOARDS:
        found = json.loads(path.read_text())
        assert found["tags"] == ["tidegate"]
        assert found["links"][0]["tags"] == ["tidegate"]
