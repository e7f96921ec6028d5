"""`tidegate events timeline` and `jobs timeline`, against an API that answers so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.operator_api import OperatorApi, invoke

from streams.api.events.cli import events
from streams.api.jobs.cli import jobs

BEGIN = "2026-11-23T20:00:00.000Z"


def span(kind: str, name: str, id_: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    given = {"kind": kind, "name": name, "id": id_, "parent": parent, "from": BEGIN}
    ends = {"to": "2026-11-23T20:00:00.250Z", "status": "over", "detail": None}
    return {**given, **ends, **fields}


FOUND: dict[str, Any] = {
    "tenant_id": "acme",
    "event_id": "evt_1",
    "job_id": "job_a",
    "trace_id": None,
    "from": BEGIN,
    "to": None,
    "spans": [
        span("received", "shop order.paid", "evt_1", None),
        span("job", "export", "job_a", "evt_1", to=None, status="running"),
        span("run", "run 1", "job_a/run/1", "job_a", **{"from": "2026-11-23T20:00:00.200Z"}),
    ],
    "next_cursor": "abc",
}


@pytest.mark.parametrize(
    ("group", "path", "id_"),
    [(events, "/v1/events/evt_1/timeline", "evt_1"), (jobs, "/v1/jobs/job_a/timeline", "job_a")],
)
def test_spans_are_printed_below_each_other(
    operator: OperatorApi, group: Any, path: str, id_: str
) -> None:
    operator.on("GET", path, FOUND)
    done = invoke(operator, group, "timeline", id_, "--failed-only")
    assert done.exit_code == 0, done.output
    for shown in ("received shop order.paid", "› job export", "goes on", "› › run 1", "0.050 s"):
        assert shown in done.stdout
    assert "--cursor abc" in done.stdout
    assert "failed_only=true" in operator.asked[0].path
    printed = invoke(operator, group, "timeline", id_, "--json")
    assert json.loads(printed.stdout) == FOUND
