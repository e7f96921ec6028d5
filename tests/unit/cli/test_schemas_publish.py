"""`tidegate schemas publish`: a registry gets our schemas under the ids that records bear."""

from __future__ import annotations

import base64
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
    assert registry.modes == {}
    assert told(publish(registry.url, "--apply", "--json"))["missing"] == []


def test_what_ended_half_way_is_gone_on_with(registry: PlayedRegistry) -> None:
    registry.refuse_after = 7
    broken = publish(registry.url, "--apply")
    assert (broken.exit_code, "answers 500" in broken.stderr) == (1, True)
    assert registry.modes == {}, "no subject is left in the mode IMPORT"
    registry.refuse_after = None
    left = told(publish(registry.url, "--apply", "--json"))["missing"]
    assert len(left) == sum(map(len, registry.versions.values())) - 7
    assert registry.modes == {}


def test_a_subject_keeps_its_mode_and_one_that_a_kill_left_in_import_gets_out_of_it(
    registry: PlayedRegistry,
) -> None:
    registry.modes = {"eu.events-value": "READONLY"}
    told(publish(registry.url, "--apply", "--json"))
    assert registry.modes == {"eu.events-value": "READONLY"}
    registry.modes["eu.jobs-value"] = "IMPORT"
    assert told(publish(registry.url, "--apply", "--json"))["missing"] == []
    assert registry.modes == {"eu.events-value": "READONLY"}


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


def test_a_password_with_odd_characters_is_sent_as_it_is(registry: PlayedRegistry) -> None:
    publish(registry.url.replace("http://", "http://me:a%2Fb%40c%C3%A4@"))
    pair = base64.b64encode("me:a/b@cä".encode()).decode()
    assert registry.authorizations[0] == f"Basic {pair}"


@pytest.mark.parametrize("password", ["s3/cret", "s3#cret", "s3?cret", "s3[cret", "33/s3", "33#s3"])
def test_a_url_that_cannot_be_read_is_refused_without_its_password(password: str) -> None:
    refused = publish(f"http://me:{password}@registry:8081")
    assert (refused.exit_code, "percent" in refused.stderr) == (2, True), refused.output
    assert "s3" not in refused.output


def test_a_password_does_not_follow_a_redirect(registry: PlayedRegistry) -> None:
    with played_registry() as other:
        registry.moved_to = other.url
        refused = publish(registry.url.replace("http://", "http://me:s3cret@"))
        assert (refused.exit_code, "answers 302" in refused.stderr) == (1, True), refused.output
        assert other.authorizations == []


def test_an_answer_that_is_no_object_is_no_registrys(registry: PlayedRegistry) -> None:
    registry.answer = lambda *_: (200, ["a list"])  # type: ignore[method-assign]
    refused = publish(registry.url)
    assert (refused.exit_code, "does not answer as a registry" in refused.stderr) == (1, True)


def test_an_address_of_ipv6_stays_in_its_brackets() -> None:
    assert "http://[::1]:1 does not answer" in publish("http://me:s3cret@[::1]:1").stderr


def test_what_is_no_registry_is_told() -> None:
    for url, code, why in (
        ("registry:8081", 2, "must begin with http"),
        ("http://127.0.0.1:1", 1, "does not answer as a registry"),
    ):
        result = publish(url)
        assert (result.exit_code, why in result.stderr) == (code, True), result.output
    without = CliRunner().invoke(schemas, ["publish"], env={"SCHEMA_REGISTRY_URL": ""})
    assert (without.exit_code, "SCHEMA_REGISTRY_URL" in readable(without.output)) == (2, True)
