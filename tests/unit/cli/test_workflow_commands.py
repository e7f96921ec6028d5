"""`tidegate workflows` lists workflows, draws their trees, watches and cancels them."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from support.operator_api import OperatorApi, invoke, problem
from typer.testing import Result

from streams.api.live import cli_watch as watch
from streams.api.workflows.cli import workflows

PATH = "/v1/workflows/job_root"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_BETWEEN_LOOKS_SECONDS", 0)


def level(*jobs: Any, cursor: str | None = None, **by_status: int) -> dict[str, Any]:
    total = sum(by_status.values())
    return {"total": total, "by_status": by_status, "jobs": list(jobs), "cursor": cursor}


def job(id_: str, status: str = "succeeded", **fields: Any) -> dict[str, Any]:
    shown = {"job_id": id_, "type": "leaf", "status": status, "call": "leaf", "waits_for": None}
    given = {"last_error": None, "replayed_as": None, "result": None, "children": {"total": 0}}
    return {**shown, **given, **fields}


def node(id_: str, status: str, children: Any, **fields: Any) -> dict[str, Any]:
    return job(id_, status, children=children, approvals=[], **fields)


def workflow(status: str = "running", jobs: Any = None, **fields: Any) -> dict[str, Any]:
    root = node("job_root", "waiting", level(), type="tree", call=None, result={"n": 1})
    given = {
        "workflow_id": "job_root",
        "tenant_id": "acme",
        "status": status,
        "root": root,
        "jobs": jobs or {"running": 1},
        "roots": level(root, waiting=1),
        "approvals": {"jobs": 0, "pending": []},
        "error": None,
        "outcome": None,
        "created_at": "2026-11-29T09:00:00.000Z",
        "ended_at": None,
    }
    return {**given, **fields}


def run(operator: OperatorApi, *words: str) -> Result:
    return invoke(operator, workflows, *words)


def queries(operator: OperatorApi) -> list[dict[str, list[str]]]:
    return [parse_qs(urlsplit(each.path).query) for each in operator.asked]


def test_they_are_listed_with_their_numbers(operator: OperatorApi) -> None:
    error = {"job_id": "job_x", "error": "PermanentError: no"}
    shown = {**workflow(jobs={"running": 50, "succeeded": 9_900}), "error": error}
    shown["root"] = {"job_id": "job_root", "type": "tree"}
    operator.on("GET", "/v1/workflows", {"workflows": [shown], "next_cursor": None})
    listed = run(operator, "list", "--tenant", "acme", "--status", "running").stdout
    for text in ("running", "tree", "job_root", "50 running, 9,900 succeeded", "PermanentError"):
        assert text in listed
    assert queries(operator) == [{"tenant_id": ["acme"], "status": ["running"], "limit": ["50"]}]


def lines(result: Result) -> list[str]:
    """The lines of a tree, from its first job on."""
    found = [line.rstrip() for line in result.stdout.splitlines()]
    return found[next(n for n, line in enumerate(found) if line.startswith("tree ")) :]


def test_the_tree_shows_levels_and_numbers_of_what_has_no_room(operator: OperatorApi) -> None:
    given = {"last_error": "PermanentError: no", "replayed_as": "job_r"}
    failed = job("job_2", "failed", call="gather[all]/1", **given)
    below = job("job_1", "waiting", call="leaf[order 7]", children={"total": 2})
    root = node(
        "job_root",
        "waiting",
        level(below, failed, cursor="abc", running=50, succeeded=9_900, failed=1, waiting=1),
        type="tree",
        call=None,
        waits_for="jobs that it asked for (gather[all])",
    )
    operator.on("GET", PATH, workflow(root=root))
    deeper = level(job("job_3", children={"total": 7}), job("job_4", "running"), running=2)
    child = node("job_1", "waiting", deeper, call="leaf[order 7]", waits_for="the time t")
    operator.on("GET", f"{PATH}/jobs/job_1", child)
    assert lines(run(operator, "show", "job_root")) == [
        "tree job_root waiting: jobs that it asked for (gather[all])",
        "├── leaf[order 7] job_1 waiting: the time t",
        "│   ├── leaf job_3 succeeded (7 jobs below it)",
        "│   └── leaf job_4 running",
        "├── leaf gather[all]/1 job_2 failed: PermanentError: no, replayed as job_r",
        "└── … and 9,950 more: 50 running, 9,900 succeeded",
        "more: --cursor abc",
    ]
    flat = lines(run(operator, "show", "job_root", "--levels", "1"))
    assert flat[1] == "├── leaf[order 7] job_1 waiting (2 jobs below it)"


def test_a_large_tree_asks_for_a_bounded_number_of_levels(operator: OperatorApi) -> None:
    jobs = [job(f"job_{n}", children={"total": 1}) for n in range(200)]
    root = node("job_root", "waiting", level(*jobs, succeeded=200), type="tree", call=None)
    operator.on("GET", PATH, workflow(root=root))
    for each in jobs:
        answer = node(each["job_id"], "succeeded", level(job("job_x"), succeeded=1))
        operator.on("GET", f"{PATH}/jobs/{each['job_id']}", answer)
    shown = run(operator, "show", "job_root", "--limit", "200", "--levels", "5").stdout
    assert len(operator.asked) == 41
    assert shown.count("(1 job below it)") == 160


def test_a_filter_and_a_cursor_are_of_the_first_level(operator: OperatorApi) -> None:
    failed = job("job_2", "failed")
    child = node("job_1", "waiting", level(failed, failed=1, running=9), type="tree")
    operator.on("GET", f"{PATH}/jobs/job_1", child)
    words = ("--job", "job_1", "--status", "failed", "--cursor", "c", "--tenant", "acme")
    assert lines(run(operator, "show", "job_root", *words)) == [
        "tree leaf job_1 waiting",
        "├── leaf job_2 failed",
        "└── in all 10: 1 failed, 9 running",
    ]
    (query,) = queries(operator)
    asked = {"tenant_id": "acme", "status": "failed", "limit": "20", "cursor": "c"}
    assert query == {name: [value] for name, value in asked.items()}
    assert json.loads(run(operator, "show", "job_root", *words, "--json").stdout) == child


def test_what_it_asks_of_people_and_its_newest_error_are_named(operator: OperatorApi) -> None:
    asked = {"approval_id": "apr_1", "key": "refund", "status": "pending"}
    error = {"job_id": "job_x", "error": "PermanentError: \x1b[31mno"}
    given = workflow(approvals={"jobs": 3, "pending": [asked]}, error=error)
    operator.on("GET", PATH, {**given, "roots": level(running=2)})
    shown = run(operator, "show", "job_root").stdout
    for text in ("3 jobs wait for people", "2; the first is shown", "(in job_x)"):
        assert text in shown
    assert f"decide: tidegate approvals show apr_1 --url {operator.url}" in shown
    assert "\x1b" not in shown


def test_a_workflow_without_its_root_is_shown_all_the_same(operator: OperatorApi) -> None:
    operator.on("GET", PATH, workflow(root=None, roots=level()))
    shown = run(operator, "show", "job_root")
    assert (shown.exit_code, "not kept any more" in shown.stdout) == (0, True)


ENDS = {"succeeded": 0, "failed": 3, "dead": 3, "cancelled": 3}


@pytest.mark.parametrize("status", ENDS)
def test_watching_tells_each_change_once_and_ends_as_the_root_did(
    operator: OperatorApi, status: str
) -> None:
    half = workflow(jobs={"running": 1, "succeeded": 1})
    operator.on("GET", PATH, workflow(), workflow(), half, workflow(status, {"succeeded": 2}))
    done = run(operator, "watch", "job_root")
    told = [re.sub(r"^\d\d:\d\d:\d\dZ job_root ", "", each) for each in done.stdout.splitlines()]
    result = ', result {"n":1}' if status == "succeeded" else ""
    assert told == [
        "running, 1 running",
        "running, 1 running, 1 succeeded",
        f"{status}, 2 succeeded{result}",
    ]
    assert done.exit_code == ENDS[status]


def test_watching_ends_where_only_a_person_goes_on(operator: OperatorApi) -> None:
    others = workflow(jobs={"running": 1, "needs_review": 1})
    operator.on("GET", PATH, others, workflow(jobs={"waiting": 1, "needs_review": 1}))
    done = run(operator, "watch", "job_root")
    assert (done.exit_code, len(done.stdout.splitlines())) == (4, 2)
    assert "tidegate jobs review --tenant acme" in done.stderr


def test_a_failure_is_followed_by_where_to_look(operator: OperatorApi) -> None:
    error = {"job_id": "job_x", "error": "PermanentError: no"}
    operator.on("GET", PATH, workflow("failed", {"failed": 2}, error=error))
    done = run(operator, "watch", "job_root")
    assert "error in job_x: PermanentError: no" in done.stdout
    assert "tidegate jobs show job_x" in done.stderr


def test_all_live_roots_are_cancelled_over_pages(operator: OperatorApi) -> None:
    operator.on("GET", PATH, workflow())
    pages: list[dict[str, Any]] = [
        {"roots": [job("job_a", "waiting"), job("job_ended")], "next_cursor": "c"},
        {"roots": [job("job_b", "running")], "next_cursor": None},
    ]
    operator.on("GET", f"{PATH}/roots", *pages)
    answer = {"type": "tree", "status": "cancelled", "answered": True}
    for id_ in ("job_a", "job_b"):
        operator.on("POST", f"/v1/jobs/{id_}/cancel", {"job_id": id_, **answer})
    done = run(operator, "cancel", "job_root", "--reason", "twice")
    assert done.stdout.splitlines() == [f"job_{n} (tree) is cancelled" for n in "ab"]
    assert operator.bodies("POST") == [{"reason": "twice"}] * 2
    assert "cursor=c" in operator.asked[3].path


def test_jobs_that_its_roots_left_behind_are_cancelled(operator: OperatorApi) -> None:
    operator.on("GET", PATH, workflow())
    operator.on("GET", f"{PATH}/roots", {"roots": [], "next_cursor": None})
    left = [job("job_c", "pending"), job("job_d", "running"), job("job_e", "dead")]
    operator.on("GET", "/v1/jobs", {"jobs": left, "next_cursor": None})
    ended = {"job_id": "job_c", "type": "leaf", "status": "cancelled", "answered": True}
    operator.on("POST", "/v1/jobs/job_c/cancel", ended)
    operator.on("POST", "/v1/jobs/job_d/cancel", problem(409, "job-ended"))
    done = run(operator, "cancel", "job_root", "--json")
    assert [each["job_id"] for each in json.loads(done.stdout)["cancelled"]] == ["job_c"]
    assert any("workflow_id=job_root" in each.path for each in operator.asked)


def test_a_former_life_is_named_and_its_own_jobs_are_cancelled(operator: OperatorApi) -> None:
    former = {**workflow(), "root": None, "roots": level(), "other_lives": ["job_root.2"]}
    path = f"{PATH}.1"
    operator.on("GET", path, former)
    assert "job_root.2" in run(operator, "show", "job_root.1").stdout
    operator.on("GET", f"{path}/roots", {"roots": [], "next_cursor": None})
    operator.on("GET", "/v1/jobs", {"jobs": [job("job_c", "waiting")], "next_cursor": None})
    ended = {"job_id": "job_c", "type": "leaf", "status": "cancelled", "answered": True}
    operator.on("POST", "/v1/jobs/job_c/cancel", ended)
    done = run(operator, "cancel", "job_root.1", "--json")
    assert [each["job_id"] for each in json.loads(done.stdout)["cancelled"]] == ["job_c"]
    assert queries(operator)[-2]["workflow_id"] == ["job_root"]


def test_a_workflow_that_has_ended_is_not_cancelled(operator: OperatorApi) -> None:
    operator.on("GET", PATH, workflow("succeeded"))
    done = run(operator, "cancel", "job_root")
    assert (done.exit_code, "has ended already: succeeded" in done.stderr) == (1, True)
