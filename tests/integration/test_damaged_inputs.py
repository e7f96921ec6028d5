"""Where a broker gives a damaged batch, nothing is lost, repeated or read from its beginning."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.conditions import eventually
from support.counting import counting_topology
from support.damaged_log import Part, damaged
from support.group_progress import GroupProgress
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import make_cluster, make_job
from support.stage_process import Cluster, StageProcess

from streams.api.read_model.database import Database
from streams.api.read_model.follower import Follower
from streams.broker.embedded import EmbeddedKafka

pytestmark = [pytest.mark.broker, pytest.mark.fault]

_SECONDS = 4.0
"""In this time the stage reads the batch several times."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def keys(name: str) -> list[bytes]:
    return [b"%s-%d" % (name.encode(), number) for number in range(50)]


def go_on_beside(cluster: Cluster, progress: GroupProgress, seconds: float) -> None:
    """Send to the other partition, and see it committed, for as long."""
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        cluster.send("in", [(b"beside", b"count")], 1)
        sent += 1
        eventually(lambda: progress.committed().get(1) == sent, what="the other partition goes on")  # noqa: B023


@pytest.mark.parametrize("part", ["records", "magic"])
def test_a_stage_stands_still_before_it_until_it_is_mended(
    broker: EmbeddedKafka, tmp_path: Path, part: Part
) -> None:
    cluster = Cluster(KafkaUnderTest(broker.bootstrap), counting_topology(2))
    cluster.create()
    whole = [key for name in ("first", "second", "third") for key in keys(name)]
    for name in ("first", "second", "third"):
        cluster.send("in", [(key, b"count") for key in keys(name)])
    progress = GroupProgress(cluster, "counting", "in")
    stage = StageProcess("counting_stage", tmp_path / "log", cluster.environ(tmp_path / "d"))
    try:
        with damaged(broker._dir.data, f"{cluster.prefix}in", 75, part) as first:
            stage.wait_for("damaged batch at")
            go_on_beside(cluster, progress, _SECONDS)
            assert progress.committed()[0] == first
        assert progress.await_end() == {}
    finally:
        stage.kill()
        progress.close()
        print(stage.lines)
    counted = Counter(pair for pair in cluster.pairs("out") if pair[0] != b"beside")
    assert counted == Counter((key, b"1") for key in whole)


def test_the_operators_read_model_stands_still_before_it_and_is_not_rebuilt(
    broker: EmbeddedKafka, tmp_path: Path
) -> None:
    cluster = make_cluster(broker.bootstrap, {}, tmp_path)
    database, home = Database(tmp_path / "m.sqlite"), cluster.home("acme")
    beside = next(name for name in map("t{}".format, range(99)) if cluster.home(name) != home)

    def follower() -> Follower:
        hurry = threading.Event()
        return Follower(cluster.settings, cluster.topology, database, lambda _: None, hurry)

    def shown() -> dict[str, str]:
        rows = "SELECT job_id, tenant_id FROM jobs"
        return database.read(lambda db: dict(db.execute(rows).fetchall()))

    cluster.write(make_job("job_first"))
    first = follower()
    first.start()
    eventually(lambda: first.ready, what="it has caught up")
    first.stop()
    with sqlite3.connect(tmp_path / "m.sqlite") as rows:
        rows.execute("UPDATE jobs SET tenant_id = 'marked'")  # a rebuilt one would not have it
    for name in ("job_before", "job_damaged", "job_behind"):
        cluster.write(make_job(name))
    second, jobs = follower(), f"{cluster.settings.topic_prefix}jobs"
    with capture_logs() as logs, damaged(broker._dir.data, jobs, 4, partition=home):
        second.start()
        eventually(lambda: any("damaged batch" in str(each) for each in logs), what="it is told")
        eventually(lambda: "job_before" in shown(), what="what comes before it is shown")
        cluster.write(make_job("job_beside", tenant_id=beside))
        eventually(lambda: "job_beside" in shown(), what="other partitions are folded")
        assert shown() == {"job_first": "marked", "job_before": "acme", "job_beside": beside}
        assert not second.ready
    eventually(lambda: second.ready, what="it has caught up")
    second.stop()
    assert shown() == {
        "job_first": "marked",
        "job_before": "acme",
        "job_damaged": "acme",
        "job_behind": "acme",
        "job_beside": beside,
    }
