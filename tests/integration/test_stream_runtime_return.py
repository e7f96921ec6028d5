"""A process that ends between giving a partition up and rejoining, and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from support.conditions import eventually
from support.counting import counting_stage, counting_topology
from support.group_members import members_at_rest, static_member
from support.stage_process import Cluster, StageProcess

from streams.settings import Settings, load_settings

pytestmark = [pytest.mark.broker, pytest.mark.fault]

GROUP = counting_stage().name
SESSION = {"TIDEGATE_SESSION_SECONDS": "6"}


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    created = Cluster(kafka, counting_topology())
    created.create()
    return created


def member(settings: Settings) -> AbstractContextManager[Consumer]:
    return static_member(settings, GROUP, "in")


def two_at_rest(cluster: Cluster) -> bool:
    return members_at_rest(cluster.admin, cluster.prefix + GROUP) == 2


@pytest.fixture
def environ(cluster: Cluster, tmp_path: Path) -> dict[str, dict[str, str]]:
    return {number: {**cluster.environ(tmp_path, number), **SESSION} for number in "01"}


@pytest.fixture
def first(cluster: Cluster, environ: dict[str, dict[str, str]]) -> Iterator[Consumer]:
    """It has both partitions."""
    with member(load_settings(environ["0"])) as joined:
        eventually(lambda: joined.poll(0.1) or len(joined.assignment()) == 2, what="it has both")
        yield joined


def test_its_heir_sees_to_what_it_gave_up(
    cluster: Cluster, tmp_path: Path, environ: dict[str, dict[str, str]], first: Consumer
) -> None:
    """Kafka gives it the rest of its partitions at once, and lets the group be."""
    heir = StageProcess("counting_stage", tmp_path / "1.log", environ["1"])
    eventually(lambda: two_at_rest(cluster), what="the heir has joined")
    # The first has not polled since, so it gives nothing up. It lives until it is replaced.
    back = StageProcess("counting_stage", tmp_path / "0.log", environ["0"])
    try:
        eventually(lambda: sorted(heir.share + back.share) == [0, 1], what="both have an owner")
    finally:
        for process in (heir, back):
            process.kill()
            print(process.lines)


def test_it_sees_to_what_it_gave_up(
    cluster: Cluster, tmp_path: Path, environ: dict[str, dict[str, str]], first: Consumer
) -> None:
    """Its heir may have looked while it still was about to give partitions up."""
    with member(load_settings(environ["1"])) as heir:
        eventually(lambda: heir.poll(0.1) or two_at_rest(cluster), what="the heir has joined")
        back = StageProcess("counting_stage", tmp_path / "0.log", environ["0"])

        def shared() -> bool:
            heir.poll(0.1)
            return sorted(back.share + [owned.partition for owned in heir.assignment()]) == [0, 1]

        try:
            eventually(shared, what="both have an owner")
            back.wait_for("joining anew")
        finally:
            back.kill()
            print(back.lines)
