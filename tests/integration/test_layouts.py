"""The positions of a layout on a real broker: moved whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.positions import set_positions
from support.stage_process import Cluster

from streams.errors import ConfigError
from streams.runtime.layouts import (
    carry_over,
    group_fused,
    groups_apart,
    refuse_left,
    refuse_other,
)
from streams.settings import Settings, load_settings
from streams.topology.load import load
from streams.topology.model import LayoutName, Topology

pytestmark = pytest.mark.broker

WIDTH = """
partitions: {}
"""
FUSED_LESS = ("dedup", "scheduler")


class Positions:
    """Positions of the stages of a topology with two partitions, none of which runs."""

    def __init__(self, kafka: Any, folder: Path) -> None:
        self.topology = self.load(folder, 2)
        self.cluster = Cluster(kafka, self.topology)
        self.cluster.create()
        self.settings: Settings = load_settings(self.cluster.environ(folder))

    def load(self, folder: Path, partitions: int) -> Topology:
        file = folder / "topology.yaml"
        file.write_text(WIDTH.format(partitions))
        return load(file)

    def commit(self, group: str, places: Iterable[tuple[str, int]], offset: int = 7) -> None:
        with self._client(group) as client:
            set_positions(client, self._all(places, offset))

    def of(self, group: str, places: Iterable[tuple[str, int]]) -> set[int]:
        with self._client(group) as client:
            return {place.offset for place in client.committed(self._all(places), 10)}

    def carry_over(self, layout: LayoutName, topology: Topology) -> dict[str, int]:
        return carry_over(layout, topology, self.settings, self.cluster.admin)

    def refuse_other(self, stage: str, topology: Topology) -> None:
        refuse_other(stage, topology, self.settings, self.cluster.admin)

    def refuse_left(self, stage: str, topology: Topology) -> None:
        refuse_left(stage, topology, self.settings)

    def _client(self, group: str) -> Consumer:
        return Consumer(self.cluster.client(group_id=self.cluster.prefix + group))

    def _all(self, places: Iterable[tuple[str, int]], offset: int = -1001) -> list[TopicPartition]:
        return [TopicPartition(self.cluster.prefix + topic, p, offset) for topic, p in places]


@pytest.fixture
def positions(kafka: Any, tmp_path: Path) -> Positions:
    return Positions(kafka, tmp_path)


def test_a_topology_of_fewer_partitions_moves_nothing(positions: Positions, tmp_path: Path) -> None:
    """Whoever forgets `--topology` names the built-in one."""
    groups = groups_apart(positions.topology)
    for group in groups:
        positions.commit(group.name, group.places)
    with pytest.raises(ConfigError, match=r"has a position of events\.received-1.*--topology"):
        positions.carry_over("fused", positions.load(tmp_path, 1))
    for group in groups:
        assert positions.of(group.name, group.places) == {7}
    positions.carry_over("fused", positions.topology)
    fused = group_fused(positions.topology)
    assert positions.of(fused.name, fused.places) == {7}


def test_a_stage_that_is_fused_no_longer_neither_starts_anew_nor_loses_its_positions(
    positions: Positions,
) -> None:
    fused = group_fused(positions.topology)
    positions.commit(fused.name, fused.places)
    less = replace(positions.topology, fused=FUSED_LESS)
    with pytest.raises(ConfigError, match=r"name it under `fused` again"):
        positions.refuse_left("dispatcher", less)
    with pytest.raises(ConfigError, match=r"has a position of .*-\d, which this topology"):
        positions.carry_over("apart", less)
    assert positions.of(fused.name, fused.places) == {7}
    positions.carry_over("apart", positions.topology)
    positions.refuse_left("dispatcher", less)


def test_a_position_never_goes_back_to_one_that_a_change_of_layout_has_left_behind(
    positions: Positions,
) -> None:
    """A stage may have started again between the copy of its positions and their deletion."""
    fused, (dedup, *_) = group_fused(positions.topology), groups_apart(positions.topology)
    positions.commit(fused.name, fused.places, 5)
    positions.commit(dedup.name, dedup.places, 9)
    positions.carry_over("apart", positions.topology)
    assert positions.of(dedup.name, dedup.places) == {9}


def test_other_stages_than_before_cannot_take_over_the_fused_positions(
    positions: Positions,
) -> None:
    """What one of them leaves would be the position of another one that reads the same topic."""
    before = replace(positions.topology, fused=("dedup", "scheduler", "dispatcher"))
    fused = group_fused(before)
    positions.commit(fused.name, fused.places)
    after = replace(positions.topology, fused=("dedup", "scheduler", "delivery"))
    delivery = groups_apart(after)[-1]
    positions.commit(delivery.name, delivery.places, 5)
    with pytest.raises(ConfigError, match=r"pipeline has a position of .*-\d, which this topology"):
        positions.carry_over("fused", after)
    assert positions.of(fused.name, fused.places) == {7}
    assert positions.of(delivery.name, delivery.places) == {5}


def test_without_fused_stages_there_is_no_other_layout(positions: Positions) -> None:
    apart = replace(positions.topology, fused=())
    positions.refuse_other("dispatcher", apart)
    positions.refuse_left("dispatcher", apart)
    assert positions.carry_over("apart", apart) == {}
