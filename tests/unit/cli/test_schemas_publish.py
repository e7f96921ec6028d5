"""`tidegate schemas publish`: a registry gets our schemas under the ids that records bear."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.played_registry import PlayedRegistry, played_registry, readable
from typer.testing import CliRunner, Result

from streams.cli.schemas import schemas
from streams.serde.schemas import by_id, current


@pytest.fixture
def registry() -> Iterator[PlayedRegistry]:
    with played_registry() as made:
        yield made


def publish(url: str, *words: str, **environ: str) -> Result:
    env = {"TIDEGATE_TOPIC_PREFIX": "eu.", **environ}
    return CliRunner().invoke(schemas, ["publish", "--registry", url, *words], env=env)


def told(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_every_version_is_there_under_its_id_and_the_modes_are_as_before(
    registry: PlayedRegistry,
) -> None:
    planned = told(publish(registry.url, "--json"))
    assert registry.schemas == {}
    done = told(publish(registry.url, "--apply", "--json"))
    assert done["missing"] == planned["missing"]
    versions = [s for s in by_id().values() if s.name == "envelope"]
    assert registry.versions["eu.events-value"] == {s.version: s.id for s in versions}
    assert registry.schemas[current("envelope").id] == current("envelope").text
    assert set(registry.modes.values()) == {"READWRITE"}
    assert told(publish(registry.url, "--apply", "--json"))["missing"] == []


def test_what_ended_half_way_is_gone_on_with(registry: PlayedRegistry) -> None:
    registry.refuse_after = 7
    broken = publish(registry.url, "--apply")
    assert (broken.exit_code, "answers 500" in broken.stderr) == (1, True)
    registry.refuse_after = None
    left = told(publish(registry.url, "--apply", "--json"))["missing"]
    assert len(left) == sum(map(len, registry.versions.values())) - 7
    assert set(registry.modes.values()) == {"READWRITE"}


def test_an_id_or_a_version_with_another_schema_is_named_and_nothing_is_written(
    registry: PlayedRegistry,
) -> None:
    registry.schemas[current("envelope").id] = '"string"'
    refused = publish(registry.url, "--apply")
    assert refused.exit_code == 1
    assert f"another schema under id {current('envelope').id}" in refused.stderr
    assert "a context of this one" in refused.stderr
    registry.schemas, registry.versions = {900: '"string"'}, {"eu.events-value": {1: 900}}
    refused = publish(registry.url, "--apply")
    assert "eu.events-value, version 1" in refused.stderr
    assert registry.modes == {}


def test_a_password_in_the_url_is_used_and_never_shown(registry: PlayedRegistry) -> None:
    url = registry.url.replace("http://", "http://me:s3cret@")
    registry.refuse_after = 0
    refused = publish(url, "--apply")
    assert registry.authorizations[0] == "Basic bWU6czNjcmV0"
    assert "s3cret" not in refused.output + told(publish(url, "--json"))["registry"]


def test_what_is_no_registry_is_told() -> None:
    for url, code, why in (
        ("registry:8081", 2, "must begin with http"),
        ("http://127.0.0.1:1", 1, "does not answer as a registry"),
    ):
        result = publish(url)
        assert (result.exit_code, why in result.stderr) == (code, True), result.output
    without = CliRunner().invoke(schemas, ["publish"], env={"SCHEMA_REGISTRY_URL": ""})
    assert (without.exit_code, "SCHEMA_REGISTRY_URL" in readable(without.output)) == (2, True)
