"""`tidegate topology size`: the arithmetic, its limits, and what its figures refer to."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from sizing.brokers import operator_reads, readers
from sizing.demand import Demand, Pool, rates
from sizing.figures import FIGURES, RUNS, value
from sizing.limits import warnings
from sizing.size import APART, FUSED, Size, size, with_window
from sizing.stages import HEAD_ROOM, STORES, StageSize, fullest, sharing, whole

from streams.api.tables import TABLES
from streams.errors import ConfigError
from streams.topology.load import load
from streams.topology.model import Topology

ROOT = Path(__file__).parents[3]
DAY = 86_400
USUAL = Demand(events=1_000, jobs=200)


def sized(**changes: object) -> Size:
    return size(replace(USUAL, **changes), load())  # type: ignore[arg-type]


def with_partitions(partitions: int) -> Topology:
    usual = load()
    topics = {
        name: replace(each, partitions=partitions) if each.partitions == usual.partitions else each
        for name, each in usual.topics.items()
    }
    return replace(usual, partitions=partitions, topics=topics)


def stage(found: Size, name: str) -> StageSize:
    return next(each for each in found.stages if each.name == name)


def told(**changes: object) -> str:
    return "\n".join(warnings(sized(**changes), load()))


def test_replication_multiplies_disk_and_traffic_between_brokers_and_nothing_else() -> None:
    one, three = sized(replication=1), sized(replication=3)
    assert three.topics == one.topics
    assert three.brokers.disk == pytest.approx(3 * one.brokers.disk)
    assert three.brokers.disk == pytest.approx(3 * sum(topic.disk for topic in one.topics))
    assert (one.brokers.replication_in, three.brokers.clients_in) == (0, one.brokers.clients_in)
    assert three.brokers.replication_in == pytest.approx(2 * one.brokers.clients_in)


def test_a_body_costs_its_bytes_for_each_delivery_and_the_overhead_for_each_chunk() -> None:
    def payloads(body: int) -> float:
        topics = sized(body_bytes=body, redeliveries=0.5).topics
        return next(topic.written for topic in topics if topic.name == "payloads")

    overhead = value("logged", "payloads", "delivery in")
    assert payloads(1_000) == pytest.approx(1_500 * (1_000 + overhead))
    assert payloads(524_288) == pytest.approx(1_500 * (524_288 + overhead))
    assert payloads(524_289) == pytest.approx(1_500 * (524_289 + 2 * overhead))


def test_a_topic_that_deletes_keeps_a_segment_beyond_its_retention() -> None:
    topics = {topic.name: topic for topic in sized().topics}
    received = topics["events.received"]
    least = received.written * 14 * DAY
    assert least < received.disk < received.written * 15.1 * DAY


def test_a_compacted_topic_is_bounded_by_what_lives_and_the_dirt_it_may_have() -> None:
    topics = {topic.name: topic for topic in sized(events=200, deliveries=0).topics}
    live = 200 * 30 * DAY * value("kept", "jobs", "job")
    assert live / 0.8 < topics["jobs"].disk < live / 0.8 * 1.05
    assert topics["jobs"].disk < topics["jobs"].written * 30 * DAY


def test_the_store_of_seen_keys_has_up_to_two_windows_and_no_replicas() -> None:
    found = size(USUAL, load(), APART)
    expected = 1_000 * 14 * DAY * value("store", "seen", "event")
    again = 100 * 14 * DAY * value("store", "seen", "redelivery")
    dedup = stage(found, "dedup")
    share = share_of_the_fullest(found, "dedup")
    assert dedup.disk == pytest.approx((expected + again) * share)


def share_of_the_fullest(found: Size, name: str) -> float:
    """Deal the partitions out; one process has the largest tenant's and its part of the others."""
    partitions, processes = found.topology.partitions, stage(found, name).processes
    dealt = len(range(partitions)[::processes])
    largest = found.demand.largest_tenant
    return largest + (1 - largest) * dealt / partitions


def undivided(demand: Demand, name: str, stages: tuple[str, ...]) -> StageSize:
    """A stage whose one tenant has all there is, so that one process has it all."""
    return stage(size(replace(demand, largest_tenant=1.0), load(), stages), name)


RATES = [(700, 0.1), (1_000, 0.1), (1_300, 0.1), (3_000, 0.03), (10_000, 0.01), (5_000, 0.0)]


@pytest.mark.parametrize(("events", "share"), RATES)
@pytest.mark.parametrize("declared", [4, 25, 50, 1_000])
@pytest.mark.parametrize("stages", [FUSED, APART])
def test_with_whole_partitions_no_process_restores_for_longer_or_works_more_than_planned(
    events: float, share: float, declared: int, stages: tuple[str, ...]
) -> None:
    demand = Demand(events, events / 5, largest_tenant=share)
    found = size(demand, with_partitions(declared), stages)
    for name in stages:
        fullest_share = share_of_the_fullest(found, name)
        restore = undivided(demand, name, stages).restore_seconds
        assert restore * fullest_share <= demand.restore_minutes * 60
        assert stage(found, name).busy * fullest_share <= HEAD_ROOM


@pytest.mark.parametrize(("events", "share"), RATES)
@pytest.mark.parametrize("stages", [FUSED, APART])
def test_restore_disk_and_keys_are_those_of_the_whole_partitions_of_the_fullest_process(
    events: float, share: float, stages: tuple[str, ...]
) -> None:
    demand = Demand(events, events / 5, largest_tenant=share)
    found = size(demand, with_partitions(25), stages)
    for name in stages:
        shown, all_of_it = stage(found, name), undivided(demand, name, stages)
        fullest_share = share_of_the_fullest(found, name)
        assert shown.restore_seconds == pytest.approx(all_of_it.restore_seconds * fullest_share)
        assert shown.disk == pytest.approx(all_of_it.disk * fullest_share)
        assert shown.keys == pytest.approx(all_of_it.keys * fullest_share)


def test_the_waiting_jobs_are_those_of_the_whole_partitions_of_the_fullest_process() -> None:
    found, one = sized(), sized(largest_tenant=1.0)

    def waiting(of: Size) -> int:
        formula = " ".join(stage(of, "pipeline").formulas)
        return int(formula.partition(" MiB waiting jobs")[0].split()[-1].replace(",", ""))

    assert waiting(found) == round(waiting(one) * share_of_the_fullest(found, "pipeline"))


def test_a_tenant_that_no_process_restores_in_time_is_told_and_the_others_are_in_time() -> None:
    found = sized(events=1e6, jobs=1e5, largest_tenant=0.01)
    pipeline = stage(found, "pipeline")
    others = 1 - 0.01 / share_of_the_fullest(found, "pipeline")
    assert pipeline.restore_seconds * others <= 3_600 < pipeline.restore_seconds
    assert "a process that lost its disk takes" in "\n".join(warnings(found, load()))


def test_the_share_of_the_fullest_process_is_explained_in_whole_partitions() -> None:
    found = sized()
    partitions, processes = found.topology.partitions, stage(found, "pipeline").processes
    held = math.ceil(partitions / processes)
    assert (
        stage(found, "pipeline")
        .formulas[-1]
        .endswith(f"of all: 0.1 + 0.9 x {held} of {partitions} partitions")
    )


def test_workers_follow_littles_law() -> None:
    found = stage(sized(handler_seconds=30.0, slots=50), "worker, pool default")
    assert found.processes == math.ceil(200 * 30.07 / (50 * HEAD_ROOM))


def test_workers_that_do_nothing_are_bounded_by_their_own_work() -> None:
    found = stage(sized(jobs=10_000, handler_seconds=0.0, slots=10_000), "worker, pool default")
    assert found.processes == math.ceil(found.busy / HEAD_ROOM) > 1


def test_a_pool_has_its_own_workers_and_the_rest_stays_in_the_default() -> None:
    found = sized(pools=(Pool("slow", 5, 60, 10),))
    assert stage(found, "worker, pool slow").processes == math.ceil(5 * 60.07 / 6)
    rest = stage(found, "worker, pool default").formulas[1]
    assert "195 jobs/s" in rest


@pytest.mark.parametrize("events", [1, 100, 1_000, 20_000, 1_000_000])
def test_partitions_hold_twice_the_processes_and_80_of_them_one_process_of_dedup(
    events: float,
) -> None:
    demand = Demand(events, events, largest_tenant=0.0, restore_minutes=10_000)
    found = size(demand, load(), APART)
    for name in ("dedup", "dispatcher", "delivery"):
        processes = stage(found, name).processes
        assert 2 * processes <= found.topology.partitions <= 80 * processes


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("busy", [0.1, 0.7, 1.0, 3.0])
def test_the_process_with_the_largest_tenant_is_not_overloaded_unless_the_tenant_alone_is(
    busy: float, share: float
) -> None:
    processes = whole(sharing(busy, HEAD_ROOM, share), 96)
    if busy * share <= HEAD_ROOM * 3 / 4:
        assert busy * fullest(processes, 96, share) <= HEAD_ROOM + 1e-9


@pytest.mark.parametrize("partitions", [1, 7, 24, 96, 1_000])
@pytest.mark.parametrize("needed", [1.0, 1.5, 2.9, 8.4, 11.0, 23.5, 2_000.0])
def test_the_processes_are_the_fewest_whose_whole_partitions_fit(
    needed: float, partitions: int
) -> None:
    def fit(processes: int) -> bool:
        return math.ceil(partitions / processes) <= partitions / needed

    fewest = next((n for n in range(1, partitions) if fit(n)), partitions)
    assert whole(needed, partitions) == fewest


def test_a_tenant_that_exceeds_a_partition_is_told_and_no_smaller_one() -> None:
    assert "one tenant exceeds a partition" in told(events=50_000, largest_tenant=0.5)
    assert "one tenant" not in told(largest_tenant=0.5)


def test_the_operators_limits_are_told() -> None:
    assert "the operator cannot follow" in told(events=30_000, jobs=0)
    assert "the operator cannot follow" not in told()
    assert "the operator's file has" in told()


def test_more_partitions_than_the_load_wants_are_no_fault_and_are_counted() -> None:
    usual, declared = load(), with_partitions(24)
    found = size(Demand(events=20, jobs=5), declared)
    assert found.topology.partitions == 24
    assert "the topology declares" not in "\n".join(warnings(found, declared))
    fewer = size(Demand(events=20, jobs=5), usual)
    assert found.brokers.replicas > fewer.brokers.replicas


def test_no_cleaner_is_told_to_take_more_than_kafka_gives_it() -> None:
    assert "dedupe.buffer.size (128 MiB) to" in told()
    most = told(events=1e6, jobs=1e5)
    assert "dedupe.buffer.size" not in most
    assert "2 GiB at most" in most


def test_the_declared_partitions_are_compared_with_the_wanted_ones() -> None:
    assert "the topology declares 4 partitions" in told()
    assert "the topology declares" not in told(events=1, jobs=1)


@pytest.mark.parametrize(
    "field",
    [
        "events",
        "jobs",
        "effects",
        "body_bytes",
        "deliveries",
        "handler_seconds",
        "redeliveries",
        "value_bytes",
    ],
)
def test_more_of_anything_never_needs_less(field: str) -> None:
    less, more = sized(), sized(**{field: getattr(USUAL, field) * 2 + 1})
    assert more.brokers.disk >= less.brokers.disk
    assert more.topology.partitions >= less.topology.partitions
    for before in less.stages:
        after = stage(more, before.name)
        assert after.processes >= before.processes
        assert after.disk * after.processes >= before.disk * before.processes * (1 - 1e-9)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("events", -1),
        ("events", math.nan),
        ("jobs", math.inf),
        ("events", 1e12),
        ("effects", -0.1),
        ("body_bytes", 0),
        ("body_bytes", 26_214_401),
        ("redeliveries", -1),
        ("largest_tenant", 1.01),
        ("largest_tenant", -0.1),
        ("handler_seconds", math.nan),
        ("slots", 0),
        ("replication", 0),
        ("restore_minutes", 0),
    ],
)
def test_a_bad_number_is_refused_with_its_option(field: str, bad: float) -> None:
    with pytest.raises(ConfigError, match=f"^--{field.replace('_', '-')} "):
        sized(**{field: bad})


@pytest.mark.parametrize(
    ("pools", "why"),
    [
        ((Pool("slow", 201, 1, 1),), "more jobs"),
        ((Pool("default", 1, 1, 1),), "--pool default"),
        ((Pool("slow", 1, 1, 1), Pool("slow", 1, 1, 1)), "twice"),
        ((Pool("slow", math.nan, 1, 1),), "slow: jobs"),
        ((Pool("slow", 1, 1, 0),), "slow: slots"),
    ],
)
def test_a_bad_pool_is_refused(pools: tuple[Pool, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        sized(pools=pools)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="both 0"):
        sized(events=0, jobs=0)


@pytest.mark.parametrize("days", [0, -1, math.nan, math.inf, 1e9])
def test_a_window_that_is_none_is_refused(days: float) -> None:
    with pytest.raises(ConfigError, match=r"^--window-days"):
        with_window(load(), days)


def test_a_window_beyond_a_retention_is_refused_with_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"set retention_days of events\.received to 16"):
        with_window(load(), 8)
    assert with_window(load(), 3).window_ms == 3 * DAY * 1_000


def test_every_figure_refers_to_what_there_is() -> None:
    topology, counted = load(), rates(USUAL)
    stores = {store.name for each in topology.stages.values() for store in each.stores}
    for each in FIGURES:
        if each.what in ("logged", "kept"):
            topic = topology.topics[each.about]
            assert each.what == "logged" or topic.cleanup == "compact"
        if each.what == "store":
            assert each.about in stores
        if each.what == "rows":
            assert each.about in {table.name for table in TABLES}
        if each.what in ("logged", "kept", "store", "rows", "processor time"):
            assert each.per in counted or each.per == "heartbeat"
        assert each.value > 0
    keys = [(each.what, each.about, each.per) for each in FIGURES]
    assert len(set(keys)) == len(keys)
    assert {name for names in STORES.values() for name in names} <= stores


def test_every_run_is_a_program_of_the_benchmarks_and_used() -> None:
    assert {each.run for each in FIGURES} == RUNS.keys()
    for command, _ in RUNS.values():
        words = command.split()
        if words[0] == "python":
            program = (ROOT / words[1]).read_text()
            assert all(f'"{flag}"' in program or flag == "--json" for flag in words[2::2])


def test_the_operators_topics_are_those_of_its_tables() -> None:
    assert {table.topic for table in TABLES} == operator_reads(load())


def test_what_a_topics_readers_are() -> None:
    processes = {"pipeline": 2, "delivery": 1, "operator": 2}
    assert readers(load(), "events.received", processes) == 1
    assert readers(load(), "events", processes) == 1 + 1 + 2


@pytest.mark.parametrize("component", ["ingress", "pipeline", "delivery", "operator", "worker"])
def test_the_chart_requests_the_memory_that_was_measured(component: str) -> None:
    values = yaml.safe_load((ROOT / "helm/tidegate/values.yaml").read_text())
    resources = values[component]["resources"]
    measured = value("resident", component, "process")
    if component in STORES:
        measured += value("store memory", "RocksDB", "process")
    assert measured <= _mib(resources["requests"]["memory"])
    assert 2 * _mib(resources["requests"]["memory"]) <= _mib(resources["limits"]["memory"])


def _mib(text: str) -> int:
    return int(text[:-2]) * {"Mi": 1, "Gi": 1_024}[text[-2:]]
