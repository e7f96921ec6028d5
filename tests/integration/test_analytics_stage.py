"""The analytics stage on a real Kafka: each committed record is counted once, and served."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import orjson
import pytest
from support.analytics import (
    AnalyticsProcess,
    Traffic,
    analytics,
    counted_from_topics,
    ends,
    lose_disk,
    tables_of,
)
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import make_event
from support.stage_process import Cluster

from streams.analytics.figures import Figures
from streams.serde.codec import ENVELOPE
from streams.serde.ids import partition_for
from streams.topology.load import load

pytestmark = [pytest.mark.broker, pytest.mark.long]

KILLS = 20


@pytest.fixture
def cluster(kafka: KafkaUnderTest) -> Cluster:
    made = Cluster(kafka, load())
    made.create()
    return made


def positions(*processes: AnalyticsProcess) -> dict[tuple[str, int], int]:
    return {place: at for process in processes for place, at in process.positions().items()}


def counted(*processes: AnalyticsProcess) -> int:
    return sum(positions(*processes).values())


def has_counted(number: float, *processes: AnalyticsProcess) -> None:
    eventually(lambda: counted(*processes) >= number, what=f"{number:.0f} are counted")


def caught_up(cluster: Cluster, *processes: AnalyticsProcess) -> None:
    """Wait until the processes together have counted every committed record."""
    wanted = ends(cluster)

    def all_counted() -> bool:
        at = positions(*processes)
        return all(at.get(place, 0) >= end for place, end in wanted.items())

    eventually(all_counted, what=f"counted to {wanted}")


@pytest.mark.fault
def test_the_tables_are_what_the_topics_say_across_sigkill_and_a_lost_disk(
    cluster: Cluster, tmp_path: Path
) -> None:
    traffic = Traffic(cluster)
    traffic.write(40)
    for _ in range(2):
        with analytics(cluster, tmp_path) as process:
            eventually(lambda: counted(process) > 0, what="it counts")
            traffic.write(60)
    with analytics(cluster, tmp_path) as process:
        caught_up(cluster, process)
        assert process.stop() == 0  # the group's offsets, too, are behind all that is counted
    lose_disk(tmp_path)
    traffic.write(20)
    with analytics(cluster, tmp_path) as process:
        caught_up(cluster, process)
        answers_fit(process, counted_from_topics(cluster))
        assert process.stop() == 0
    assert tables_of(tmp_path) == counted_from_topics(cluster)


def answers_fit(process: AnalyticsProcess, rows: dict[Any, bytes]) -> None:
    """The API says what the topics say, of each tenant alone."""
    found = {key: Figures.decode(row) for key, row in rows.items() if key[1] == 3_600_000}

    def events(tenant: str | None = None, source: str | None = None) -> int:
        return sum(
            row.events
            for key, row in found.items()
            if tenant in (None, key[2]) and source in (None, key[4][0])
        )

    span = "since=2020-01-01T00:00:00Z"
    everything = ask(process, f"summary?{span}")
    assert everything["events"] == events()
    assert everything["missing"] == []
    assert set(everything["effects"]) == {"mail:send", "pay:refund"}
    for tenant in ("tenant1", "tenant2", "nobody"):
        own = ask(process, f"summary?tenant_id={tenant}&{span}")
        assert own["events"] == events(tenant)
        points = ask(process, f"series?tenant_id={tenant}&source=shop&{span}")["points"]
        assert sum(point["events"] for point in points) == events(tenant, "shop")
        rows_ = ask(process, f"top?tenant_id={tenant}&{span}")["rows"]
        assert {row["tenant_id"] for row in rows_} <= {tenant}
        assert sum(sum(row["deliveries"]) - row["redeliveries"] for row in rows_) == own["events"]
    for path, status in (("summary?x=1", 422), ("summary?step=day", 422), ("none", 404)):
        with pytest.raises(HTTPError) as refused:
            ask(process, path)
        assert refused.value.code == status
    with pytest.raises(HTTPError) as refused:
        process.get("/v1/analytics/summary", token=None)
    assert refused.value.code == 401


def ask(process: AnalyticsProcess, path: str) -> Any:
    return orjson.loads(process.get(f"/v1/analytics/{path}").read())


@pytest.mark.chaos
@pytest.mark.fault
def test_a_topic_that_is_made_again_while_the_stage_runs_is_counted_from_its_first_record(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic, home = f"{cluster.prefix}events", partition_for("acme", cluster.width("events"))
    events = [(b"acme", ENVELOPE.encode(make_event(f"e{number}"))) for number in range(9)]
    with analytics(cluster, tmp_path) as process:
        cluster.send("events", events[:3], home)
        caught_up(cluster, process)
        cluster.admin.delete_topics([topic])[topic].result(30)
        cluster.create(*(name for name in load().topics if name != "events"))
        cluster.send("events", events, home)  # its new log is longer than what is counted
        assert process.exit_code() == 1
        assert "events: deleted and made again" in process.lines
    with analytics(cluster, tmp_path) as process:
        caught_up(cluster, process)
        assert ask(process, "summary")["events"] == len(events)


@pytest.mark.chaos
@pytest.mark.fault
def test_twenty_sigkills_and_a_rebalance_leave_exact_tables(
    cluster: Cluster, tmp_path: Path
) -> None:
    pick = random.Random(11)
    traffic = Traffic(cluster)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    for killed in range(KILLS):
        with analytics(cluster, first, "0") as one, analytics(cluster, second, "1") as two:
            for _ in range(pick.randrange(1, 4)):
                traffic.write(pick.randrange(5, 80))
            share = pick.random() * sum(ends(cluster).values())
            has_counted(share, one, two)
            victim, survivor = (one, two) if killed % 2 else (two, one)
            victim.kill()
            if killed % 5 == 0:  # the others end while partitions move
                caught_up(cluster, survivor)
    traffic.write(50)
    with analytics(cluster, first, "0") as one, analytics(cluster, second, "1") as two:
        eventually(lambda: one.positions() and two.positions(), what="both have partitions")
        caught_up(cluster, one, two)
        assert not one.positions().keys() & two.positions().keys()
        assert one.stop() == two.stop() == 0
    assert tables_of(first, second) == counted_from_topics(cluster)
