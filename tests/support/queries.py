"""The queries of the alerts and the dashboards, as Prometheus gets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from support import promql_tool
from support.chart import CHART
from support.promql_tool import Selector

ALERTS = CHART / "files" / "alerts.yaml"
DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
_GIVEN = {"$__rate_interval": "5m", "$namespace": ".*"}
"""The variables of dashboards, with a value of each."""


def rules() -> list[dict[str, Any]]:
    """All alerting rules; several may have one name."""
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def panels(dashboard: Path) -> list[dict[str, Any]]:
    """All panels of a dashboard that show something."""
    return [each for each in json.loads(dashboard.read_text())["panels"] if each["type"] != "row"]


@cache
def selected() -> dict[str, list[Selector]]:
    """What each query selects, by where the query is.

    Raises:
        ValueError: a query is not valid.
    """
    found = dict(_queries())
    return dict(zip(found, promql_tool.selectors(list(found.values())), strict=True))


def _queries() -> Iterator[tuple[str, str]]:
    for number, rule in enumerate(rules()):
        yield f"alert {number} {rule['alert']}", rule["expr"]
    for path in DASHBOARDS:
        for panel in panels(path):
            for target in panel["targets"]:
                query = target["expr"]
                for name, value in _GIVEN.items():
                    query = query.replace(name, value)
                yield f"{path.stem}: {panel['title']} {target['refId']}", query
