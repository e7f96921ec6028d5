"""What the API's errors name as calls, the command line tells as commands."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.operator_api import OperatorApi, invoke, problem

from streams import api
from streams.api.jobs.cli import jobs
from streams.cli.calls_as_commands import told_in_commands

CALL = re.compile(r"\b(GET|PUT|POST|DELETE) (?!FROM)")


def told(detail: str) -> str:
    return told_in_commands(detail, lambda *words: shlex.join(["tidegate", *words]))


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        (
            "no tenant 'acme': create it with PUT /v1/tenants/acme",
            "no tenant 'acme': create it with `tidegate tenants set acme`",
        ),
        (
            "set it up with PUT /v1/tenants/acme/sources/my.shop, then release it",
            "set it up with `tidegate sources set my.shop --tenant acme --scheme SCHEME`, then "
            "release it",
        ),
        (
            'PUT /v1/tenants/a/endpoints/crm {"enabled":true} enables it',
            "`tidegate endpoints set crm --tenant a --enable` enables it",
        ),
        (
            "no endpoint 'listen': create it with PUT /v1/tenants/a/endpoints/listen",
            "no endpoint 'listen': create it with `tidegate listen --tenant a`",
        ),
        (
            "GET /v1/events lists events, GET /v1/quarantine the bodies that wait",
            "`tidegate events list` lists events, `tidegate quarantine list` the bodies that wait",
        ),
        ("GET /v1/jobs/job_1. It", "`tidegate jobs show job_1`. It"),
        ("PUT /v1/tenants/$(x)", "`tidegate tenants set '$(x'`)"),
        ("POST /v1/vault/rewrap does it", "POST /v1/vault/rewrap does it"),
        ("PUT /v1/tenants/a/unknown/b", "PUT /v1/tenants/a/unknown/b"),
    ],
)
def test_a_call_is_told_as_the_command_that_makes_it(detail: str, shown: str) -> None:
    assert told(detail) == shown


def _texts(file: Path) -> Iterator[str]:
    """The texts of a module, with x for each value in them; docstrings and routes are left out."""
    tree = ast.parse(file.read_text())
    inner = {
        id(part)
        for each in ast.walk(tree)
        if isinstance(each, ast.JoinedStr)
        for part in ast.walk(each)
        if part is not each
    }
    for each in ast.walk(tree):
        if isinstance(each, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "x" for part in each.values
            )
        elif isinstance(each, ast.Constant) and id(each) not in inner:
            text = str(each.value)
            if "\n" not in text and not text.endswith("."):
                yield text


def test_every_call_that_the_api_names_has_a_command() -> None:
    named = [
        text
        for file in sorted(Path(api.__file__).parent.rglob("*.py"))
        for text in _texts(file)
        if CALL.search(text)
    ]
    assert len(named) >= 10
    for text in named:
        # A path that stands in a variable is that of a source, endpoint or tenant.
        whole = text.replace("PUT x", "PUT /v1/tenants/x/sources/x")
        assert not CALL.search(told(whole)), text


def test_a_refused_command_tells_the_command_to_type_and_where_it_goes(
    operator: OperatorApi,
) -> None:
    detail = "no tenant 'acme': create it with PUT /v1/tenants/acme"
    operator.on("POST", "/v1/tenants/acme/jobs", problem(404, "tenant-unknown", detail))
    done = invoke(operator, jobs, "submit", "greet", "--tenant", "acme")
    create = f"tidegate tenants set acme --url {operator.url}"
    assert (done.exit_code, done.stderr) == (
        1,
        f"error: no tenant 'acme': create it with `{create}`\n",
    )
