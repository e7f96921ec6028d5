"""What the API's errors name as calls, the command line tells as commands."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support.operator_api import OperatorApi, invoke, problem

from streams import api
from streams.api.jobs.cli import jobs
from streams.api.remedy import Remedy, get, put
from streams.cli.calls_as_commands import told_in_commands


def told(detail: str, remedy: Remedy | None) -> str:
    call = None if remedy is None else remedy.json()
    return told_in_commands(detail, call, lambda *words: shlex.join(["tidegate", *words]))


SOURCE = put("tenants", "acme", "sources", "my.shop")
CRM = put("tenants", "a", "endpoints", "crm")
ENABLE = put("tenants", "a", "endpoints", "crm", body='{"enabled":true}')


@pytest.mark.parametrize(
    ("remedy", "shown"),
    [
        (put("tenants", "acme"), "`tidegate tenants set acme`"),
        (SOURCE, "`tidegate sources set my.shop --tenant acme --scheme SCHEME`"),
        (ENABLE, "`tidegate endpoints set crm --tenant a --enable`"),
        (CRM, "`tidegate endpoints set crm --tenant a --to URL`"),
        (put("tenants", "a", "endpoints", "listen"), "`tidegate listen --tenant a`"),
        (get("jobs", "job_1"), "`tidegate jobs show job_1`"),
        (get("approvals", "apr_1"), "`tidegate approvals show apr_1`"),
        (Remedy("GET", "/v1/jobs?status=needs_review"), "`tidegate jobs review`"),
        (
            Remedy("POST", "/v1/limits/resume", '{"scope":"pool","value":"a {b} c"}'),
            "`tidegate limits resume pool 'a {b} c'`",
        ),
        (
            Remedy("POST", "/v1/limits/resume", '{"scope":"pool"}'),
            'POST /v1/limits/resume {"scope":"pool"}',
        ),
        (put("tenants", "$(x) /?{}"), "`tidegate tenants set '$(x) /?{}'`"),
        (Remedy("POST", "/v1/vault/rewrap"), "POST /v1/vault/rewrap"),
        (put("tenants", "a", "unknown", "b"), "PUT /v1/tenants/a/unknown/b"),
    ],
)
def test_a_remedy_is_told_as_the_command_that_makes_its_call(remedy: Remedy, shown: str) -> None:
    detail = f"it is not there: {remedy} helps, then go on"
    assert told(detail, remedy) == f"it is not there: {shown} helps, then go on"


def test_a_call_in_a_detail_that_is_no_remedy_stays_as_it_is() -> None:
    """A detail may repeat a person's words, which are not to be read as calls."""
    note = "the note says: PUT /v1/tenants/acme"
    assert told(note, None) == note
    assert told(note, get("jobs")) == note


def calls(file: Path) -> Iterator[Remedy]:
    """The remedies that a module names, with x for each value in them."""
    for each in ast.walk(ast.parse(file.read_text())):
        if not isinstance(each, ast.Call) or not isinstance(each.func, ast.Name):
            continue
        if each.func.id in ("get", "put"):
            parts = [str(a.value) if isinstance(a, ast.Constant) else "x" for a in each.args]
            body = [str(k.value.value) for k in each.keywords if isinstance(k.value, ast.Constant)]
            make = get if each.func.id == "get" else partial(put, body=next(iter(body), None))
            yield make(*parts)


def test_every_remedy_of_the_api_has_a_command() -> None:
    folder = Path(api.__file__).parent
    files = [f for f in folder.rglob("*.py") if "streams.api.remedy import" in f.read_text()]
    named = [remedy for file in sorted(files) for remedy in calls(file)]
    assert len(named) >= 20
    for remedy in named:
        assert told(f"{remedy}", remedy).startswith("`tidegate "), remedy


def test_a_refused_command_tells_the_command_to_type_and_where_it_goes(
    operator: OperatorApi,
) -> None:
    detail = "no tenant 'acme': create it with PUT /v1/tenants/acme"
    status, told_so = problem(404, "tenant-unknown", detail)
    told_so["remedy"] = put("tenants", "acme").json()
    operator.on("POST", "/v1/tenants/acme/jobs", (status, told_so))
    done = invoke(operator, jobs, "submit", "greet", "--tenant", "acme")
    create = f"tidegate tenants set acme --url {operator.url}"
    assert (done.exit_code, done.stderr) == (
        1,
        f"error: no tenant 'acme': create it with `{create}`\n",
    )
