"""`topology plan` and `apply` against a real broker; a second time there is nothing to do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from support.conditions import PATIENCE_SECONDS, eventually
from typer.testing import CliRunner, Result

from streams.cli.topology import app
from streams.errors import TidegateError
from streams.kafka.admin import admin_client
from streams.settings import Settings
from streams.topology.apply import apply, execute, plan
from streams.topology.cluster import read_cluster, topic_config
from streams.topology.load import load
from streams.topology.plan import Consent, CreateTopic

pytestmark = pytest.mark.broker

SMALL = "partitions: 1\n"

Run = Callable[..., Result]


@pytest.fixture
def settings(kafka: Any) -> Iterator[Settings]:
    """A prefix that no other test has; its topics are deleted afterwards."""
    prefix = f"test-{uuid.uuid4().hex[:8]}."
    found = Settings(bootstrap=kafka.bootstrap, kafka=kafka.client_settings, topic_prefix=prefix)
    yield found
    admin = admin_client(found)
    left = [
        name
        for name in admin.list_topics(timeout=PATIENCE_SECONDS).topics
        if name.startswith(prefix)
    ]
    for future in (admin.delete_topics(left) if left else {}).values():
        future.result()


@pytest.fixture
def admin(settings: Settings) -> AdminClient:
    return admin_client(settings)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def run(settings: Settings, file: Path) -> Run:
    """One `tidegate topology` command on the test's file, cluster and prefix."""
    passed = {
        f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": value
        for name, value in settings.kafka.items()
    }
    environ = {"TIDEGATE_TOPIC_PREFIX": settings.topic_prefix, **passed}

    def command(*arguments: str) -> Result:
        given = [*arguments, "--topology", str(file), "--bootstrap", settings.bootstrap]
        return CliRunner().invoke(app, given, env=environ)

    return command


def topics_of(admin: AdminClient, settings: Settings) -> dict[str, int]:
    found = admin.list_topics(timeout=PATIENCE_SECONDS).topics
    return {
        name.removeprefix(settings.topic_prefix): len(topic.partitions)
        for name, topic in found.items()
        if name.startswith(settings.topic_prefix)
    }


def test_applying_twice_changes_nothing(
    run: Run, file: Path, admin: AdminClient, settings: Settings
) -> None:
    first = run("apply", "--allow-unsafe")
    second = run("apply", "--allow-unsafe")
    planned = run("plan", "--allow-unsafe", "--json")
    assert first.exit_code == 0, first.stderr
    assert f"changes made: {len(load(file).topics)}" in first.stdout
    assert (second.exit_code, second.stdout) == (0, "nothing to change\n")
    assert json.loads(planned.stdout)["empty"] is True


def test_topics_are_on_the_cluster_as_declared(
    file: Path, admin: AdminClient, settings: Settings
) -> None:
    topology = load(file)
    planned = apply(topology, settings, Consent(unsafe=True))
    names = {topic: settings.topic_prefix + topic for topic in topology.topics}
    found = read_cluster(admin, names.values())
    assert len(planned.of(CreateTopic)) == len(topology.topics)
    for topic in topology.topics.values():
        actual = found.topics[names[topic.name]]
        wanted = topic_config(topic, actual.replication >= 3)
        assert {setting: actual.config[setting] for setting in wanted} == wanted
        assert actual.partitions == topic.partitions


def test_a_plan_changes_nothing(run: Run, admin: AdminClient, settings: Settings) -> None:
    planned = run("plan", "--allow-unsafe", "--json")
    steps = json.loads(planned.stdout)["steps"]
    assert planned.exit_code == 0
    assert {step["step"] for step in steps} == {"CreateTopic"}
    assert topics_of(admin, settings) == {}


def test_fewer_than_three_brokers_are_refused_and_nothing_is_created(
    run: Run, file: Path, admin: AdminClient, settings: Settings
) -> None:
    brokers = len(admin.list_topics(timeout=PATIENCE_SECONDS).brokers)
    if brokers >= 3:
        pytest.skip(f"the cluster under test has {brokers} brokers")
    refused = run("apply")
    assert refused.exit_code == 1
    assert f"the cluster has {brokers} broker" in refused.stderr
    assert "--allow-unsafe" in refused.stderr
    with pytest.raises(TidegateError, match="--allow-unsafe"):
        apply(load(file), settings)
    assert topics_of(admin, settings) == {}


def test_a_setting_changed_by_hand_is_set_back_and_others_stay(
    run: Run, admin: AdminClient, settings: Settings
) -> None:
    run("apply", "--allow-unsafe")
    dlq = settings.topic_prefix + "dlq"

    def config(name: str) -> str:
        return read_cluster(admin, [dlq]).topics[dlq].config[name]

    by_hand = [
        ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("flush.messages", "777", incremental_operation=AlterConfigOpType.SET),
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, dlq, incremental_configs=by_hand)
    admin.incremental_alter_configs([resource])[resource].result()
    eventually(lambda: config("retention.ms") == "1000", what="the change made by hand shows")
    told = run("apply", "--allow-unsafe")
    assert told.stdout == (f"change {dlq}: retention.ms from 1000 to 2592000000\nchanges made: 1\n")
    assert (config("retention.ms"), config("flush.messages")) == ("2592000000", "777")
    assert run("apply", "--allow-unsafe").stdout == "nothing to change\n"


def test_partitions_grow_only_when_allowed(
    run: Run, file: Path, admin: AdminClient, settings: Settings
) -> None:
    run("apply", "--allow-unsafe")
    file.write_text(SMALL.replace("partitions: 1\n", "partitions: 2\n", 1))
    refused = run("apply", "--allow-unsafe")
    assert refused.exit_code == 1
    assert "keys move" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert topics_of(admin, settings)["events"] == 1
    grown = run("apply", "--allow-unsafe", "--allow-partition-change")
    assert grown.exit_code == 0, grown.stderr
    assert topics_of(admin, settings)["events"] == 2
    assert run("apply", "--allow-unsafe").stdout == "nothing to change\n"


def test_only_a_named_topic_is_deleted(run: Run, admin: AdminClient, settings: Settings) -> None:
    run("apply", "--allow-unsafe")
    strangers = [settings.topic_prefix + name for name in ("old", "other")]
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in strangers]).values():
        future.result()
    eventually(
        lambda: {"old", "other"} <= set(topics_of(admin, settings)), what="the strangers show"
    )
    told = run("apply", "--allow-unsafe", "--delete", "old")
    assert told.exit_code == 0, told.stderr
    assert f"delete {strangers[0]}\n" in told.stdout
    assert f"note: {strangers[1]} carries the prefix but is not declared" in told.stdout
    left = topics_of(admin, settings)
    assert "old" not in left
    assert {"other", "events"} <= set(left)


def test_two_that_apply_at_once_both_succeed(
    file: Path, admin: AdminClient, settings: Settings
) -> None:
    """A plan made before the other one's topics existed is carried out after."""
    topology = load(file)
    late = plan(topology, admin, settings.topic_prefix, Consent(unsafe=True))
    apply(topology, settings, Consent(unsafe=True))
    execute(late, admin)
    assert plan(topology, admin, settings.topic_prefix, Consent(unsafe=True)).empty
