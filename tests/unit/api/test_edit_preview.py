"""The call that shows an edit of a job's input before its replay."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.access_desk import Api, serving
from support.folding import fold
from support.operator_cluster import make_job

PATH = "/v1/dlq/job_a/preview"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        fold(made.desk.rows, make_job("job_a", status="dead", input=json.dumps({"a": 1, "b": 2})))
        yield made


async def ask(api: Api, body: Any, role: str = "operator") -> tuple[int, dict[str, Any]]:
    return await api.ask(api.office.token(role, None), "POST", PATH, body)


async def test_it_shows_the_input_before_and_after_and_replays_nothing(api: Api) -> None:
    status, found = await ask(api, {"input": {"a": 1, "b": 3}})
    assert (status, found["before"], found["after"]) == (200, {"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert (found["changed"], found["has_schema"], found["errors"]) == (True, False, [])
    assert api.desk.sent == []


async def test_an_input_that_is_equal_has_not_changed(api: Api) -> None:
    _, found = await ask(api, {"input": {"b": 2, "a": 1}})
    assert found["changed"] is False


async def test_it_is_for_those_who_may_replay_and_takes_no_null(api: Api) -> None:
    assert (await ask(api, {"input": 1}, "viewer"))[0] == 403
    status, problem = await ask(api, {"input": None})
    assert (status, "must not be null" in str(problem)) == (422, True)
    assert (await ask(api, {}))[0] == 422
    beta = api.office.token("operator", frozenset({"beta"}))
    assert (await api.ask(beta, "POST", PATH, {"input": 1}))[0] == 404


async def test_an_input_larger_than_a_job_may_have_is_refused(api: Api) -> None:
    assert (await ask(api, {"input": "x" * 300_000}))[0] == 413
