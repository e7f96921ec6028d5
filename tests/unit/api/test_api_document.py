"""The OpenAPI document is valid, is the one that the code makes, and is answered and printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel
from support.access_desk import BOOTSTRAP_TOKEN, serving
from support.api_document.examples import EXAMPLES
from support.api_document.files import DOCUMENT, PAGE, document_text, made, page_text
from support.api_document.requests import plain_path
from support.api_document.routes import declared
from typer.testing import CliRunner

from streams.api.openapi.cli import api as commands
from streams.api.openapi.shipped import version

ANEW = "write them anew: make api"


def operations() -> Iterator[dict[str, Any]]:
    for calls in made()["paths"].values():
        yield from calls.values()


def test_the_document_and_its_page_are_those_of_the_code() -> None:
    assert DOCUMENT.read_text() == document_text(), ANEW
    assert PAGE.read_text() == page_text(), ANEW


def test_it_is_a_document_of_openapi() -> None:
    assert [str(fault) for fault in OpenAPIV31SpecValidator(made()).iter_errors()] == []


def test_every_schema_in_it_is_one() -> None:
    for name, schema in made()["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema), name


def test_it_has_every_call_once_with_who_may_make_it() -> None:
    for route in declared():
        path, method = plain_path(route.call.path), route.call.method.lower()
        found = made()["paths"][path][method]
        assert found["x-tidegate-permission"] == route.call.needs
        assert found["x-tidegate-scope"] == route.call.of.name.lower()
        assert found["summary"].endswith("."), path
    ids = [each["operationId"] for each in operations()]
    assert len(ids) == len(set(ids)) == len(list(declared()))


def test_every_body_has_an_example_that_its_model_takes() -> None:
    models = {route.body.__name__: route.body for route in declared() if route.body is not None}
    assert EXAMPLES.keys() - models.keys() == set(), "examples of no body"
    lacking = {name for name, model in models.items() if needs_some(model)} - EXAMPLES.keys()
    assert lacking == set(), "add examples to tests/support/api_document/examples.py"
    for name, example in EXAMPLES.items():
        models[name].model_validate(example)


def needs_some(model: type[BaseModel]) -> bool:
    return any(field.is_required() for field in model.model_fields.values())


def test_every_answer_of_json_has_an_example_that_fits_its_schema() -> None:
    for each in operations():
        for status, answer in each["responses"].items():
            content = answer.get("content", {}).get("application/json")
            if content is not None and content["schema"]:
                whole = {**content["schema"], "components": made()["components"]}
                fault = next(Draft202012Validator(whole).iter_errors(content["example"]), None)
                assert fault is None, f"{status} of {each['operationId']}: {fault}"


def test_a_success_and_a_missing_right_are_told_of_every_call() -> None:
    for each in operations():
        statuses = {int(status) for status in each["responses"]}
        is_never_found = each["operationId"] == "get_associations_rest"
        assert is_never_found or any(status < 400 for status in statuses), each["operationId"]
        assert each["x-tidegate-permission"] is None or {401, 403, 503} <= statuses


async def test_the_operator_answers_it_and_says_when_the_caller_has_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        headers = {"Authorization": f"Bearer {BOOTSTRAP_TOKEN}"}
        async with api.client.get("/v1/openapi.json", headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            assert (await answer.json())["openapi"] == "3.1.0"
            known = {**headers, "If-None-Match": answer.headers["ETag"]}
        async with api.client.get("/v1/openapi.json", headers=known) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
            assert answer.headers["ETag"] == f'"{version()}"'
        async with api.client.get("/v1/openapi.json") as answer:
            assert answer.status == 401


def test_the_command_prints_it_without_an_operator() -> None:
    printed = CliRunner().invoke(commands, ["openapi"])
    assert (printed.exit_code, json.loads(printed.stdout)) == (0, made())


async def test_an_answer_that_it_does_not_have_fails_the_test_that_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The desks of the tests hold each answer to the document; without this none would fail."""
    answers = made()["paths"]["/v1/jobs"]["get"]["responses"]
    async with serving(tmp_path) as api:
        assert (await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/jobs"))[0] == 200
        fields = answers["200"]["content"]["application/json"]["schema"]["properties"]
        monkeypatch.setitem(fields, "next_cursor", {"type": "integer"})
        status, told = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/jobs")
        assert (status, "at $.next_cursor" in told["detail"]) == (500, True)
        monkeypatch.delitem(answers, "200")
        status, told = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/jobs")
        assert (status, "200 is not documented" in told["detail"]) == (500, True)
