"""Each rule of a topology, broken alone: one problem, at the key to change."""

from __future__ import annotations

import fnmatch
from dataclasses import replace

import pytest

from streams.serde.sizes import PRODUCER_BATCH_BYTES
from streams.topology.limits import Limit, Rate
from streams.topology.load import load
from streams.topology.model import (
    JobType,
    LeasePolicy,
    Route,
    StageDeclaration,
    StoreDeclaration,
    Topic,
    Topology,
)
from streams.topology.sizes import largest
from streams.topology.validate import validate

DAY = 86_400_000
FRAMING = 4 * 1024
"""What a record needs beside its key and value, and a dead letter beside its record's."""


def with_topic(name: str, of: Topology | None = None, **changes: object) -> Topology:
    topology = of or load()
    topic = replace(topology.topics.get(name, Topic(name, 4)), **changes)  # type: ignore[arg-type]
    return replace(topology, topics={**topology.topics, name: topic})


def with_stage(stage: StageDeclaration) -> Topology:
    topology = load()
    return replace(topology, stages={**topology.stages, stage.name: stage})


def remembering() -> Topology:
    """All that must outlive the window and its input does, whatever they are set to."""
    topology = with_topic("dedup.seen.changelog", retention_ms=90 * DAY)
    topology = with_topic("events", topology, retention_ms=60 * DAY)
    topology = with_topic("duplicates", topology, retention_ms=60 * DAY)
    return replace(topology, finished_jobs_ms=90 * DAY)


def short_lived() -> Topology:
    """A window of seven days, over topics that nothing else asks to keep as long."""
    topology = with_topic("dlq", retention_ms=5 * DAY)
    return replace(topology, stages={"dedup": topology.stages["dedup"]}, fused=())


def with_limit(limit: Limit) -> Topology:
    return replace(load(), limits=(limit,))


def dedup(changelog: str, kind: str = "window") -> Topology:
    store = StoreDeclaration("seen", changelog, kind)  # type: ignore[arg-type]
    return with_stage(StageDeclaration("dedup", ("events.received",), ("events",), (store,)))


def fused_with(*stages: StageDeclaration) -> Topology:
    topology = load()
    added = {stage.name: stage for stage in stages}
    fused = (*topology.fused, *added)
    return replace(topology, stages={**topology.stages, **added}, fused=fused)


BROKEN = {
    "a stage whose transactional ids are those of another": (
        with_stage(StageDeclaration("dedup-eu", ("events.received",), (), ())),
        "stages.dedup-eu",
        "begins like the transactional ids of dedup",
    ),
    "two fused stages read a topic": (
        fused_with(StageDeclaration("audit", ("events",), (), ())),
        "fused.3",
        "dispatcher and audit both have events, so they cannot be fused",
    ),
    "two fused stages have a store of one name": (
        fused_with(
            StageDeclaration(
                "audit",
                ("jobs",),
                (),
                (StoreDeclaration("timers", "deliveries.endpoints", "key_value"),),
            )
        ),
        "fused.3",
        "scheduler and audit both have a store timers",
    ),
    "events.received forgets before it can be replayed": (
        with_topic("events.received", retention_ms=13 * DAY),
        "topics.events.received.retention_days",
        "less than twice the window of 7 days; set retention_days of events.received to 14",
    ),
    "a longer window": (
        replace(remembering(), window_ms=7 * DAY + DAY // 2),
        "topics.events.received.retention_days",
        "to 15 or more",
    ),
    "payloads do not last as long as dead letters": (
        replace(with_topic("dlq", retention_ms=32 * DAY), finished_jobs_ms=32 * DAY),
        "topics.payloads.retention_days",
        "the retention of dlq, whose records refer to payloads; set retention_days of payloads "
        "to 32",
    ),
    "payloads do not last as long as the quarantine": (
        with_topic("quarantine", retention_ms=32 * DAY),
        "topics.payloads.retention_days",
        "the retention of quarantine, whose records refer to payloads",
    ),
    "payloads do not last as long as deliveries": (
        replace(load(), deliveries_ms=32 * DAY),
        "topics.payloads.retention_days",
        "the 32 days for which outgoing deliveries refer to payloads",
    ),
    "payloads do not last as long as events": (
        with_topic("events.received", remembering(), retention_ms=40 * DAY),
        "topics.payloads.retention_days",
        "the retention of events.received",
    ),
    "events are gone before a late dispatcher reads them": (
        with_topic("events", retention_ms=20 * DAY),
        "topics.events.retention_days",
        "less than the 14 of events.received, by which dedup may lag, and the 7 of jobs.commands, "
        "by which the dispatcher may: an event would be deleted before it has its job; set "
        "retention_days of events to 21",
    ),
    "finished jobs are purged within the window": (
        replace(short_lived(), finished_jobs_ms=6 * DAY),
        "retention.finished_jobs_days",
        "kept 6 days, less than the window of 7 days",
    ),
    "finished jobs are purged while their events can be read again": (
        replace(with_topic("dlq", retention_ms=5 * DAY), finished_jobs_ms=21 * DAY),
        "retention.finished_jobs_days",
        "kept 21 days, but events can be read for 22: read again after its job was purged, an "
        "event would have another; set finished_jobs_days to 22 or more",
    ),
    "finished jobs are purged before their dead letters": (
        replace(load(), finished_jobs_ms=29 * DAY),
        "retention.finished_jobs_days",
        "set finished_jobs_days to dlq's retention_days or more",
    ),
    "what is fused is no stage": (
        replace(load(), fused=("dedup", "dispacher")),
        "fused.1",
        "no stage 'dispacher' (did you mean 'dispatcher'?)",
    ),
    "a stage is fused twice": (
        replace(load(), fused=("dedup", "dispatcher", "dedup")),
        "fused.2",
        "stage 'dedup' is fused twice",
    ),
    "a topic without a time": (
        with_topic("events", retention_ms=None),
        "topics.events.retention_days",
        "set retention_days",
    ),
    "a compacted topic with a time": (
        with_topic("jobs", retention_ms=DAY),
        "topics.jobs.retention_days",
        "remove retention_days",
    ),
    "event time of the producer": (
        with_topic("events.received", timestamp="create"),
        "topics.events.received.timestamp",
        "set timestamp: append",
    ),
    "commands by the clock of whoever writes them": (
        with_topic("jobs.commands", timestamp="create"),
        "topics.jobs.commands.timestamp",
        "a submission of long ago run again; set timestamp: append",
    ),
    "bodies kept by the clock of whoever writes them": (
        with_topic("quarantine", timestamp="create"),
        "topics.quarantine.timestamp",
        "set timestamp: append",
    ),
    "the broker's time by the clock of whoever asks": (
        with_topic("clock", timestamp="create"),
        "topics.clock.timestamp",
        "stages learn the broker's time from it; set timestamp: append",
    ),
    "timers deleted by the clock of whoever writes them": (
        with_topic("schedule", timestamp="create"),
        "topics.schedule.timestamp",
        "one that is wrong has records deleted at once, or never; set timestamp: append",
    ),
    "payloads that take no chunk": (
        with_topic("payloads", max_message_bytes=512 * 1024),
        "topics.payloads.max_message_kib",
        "and a sealed chunk of a body (524,300 bytes)",
    ),
    "a topic that takes each record and no batch": (
        with_topic("jobs.progress", max_message_bytes=512 * 1024),
        "topics.jobs.progress.max_message_kib",
        "the broker would refuse records that are small themselves; set max_message_kib to 977",
    ),
    "an input with other partitions": (
        with_topic("events", partitions=8),
        "topics.events.partitions",
        "events has 8 partitions",
    ),
    "a changelog with other partitions": (
        with_topic("ledger", partitions=1),
        "topics.ledger.partitions",
        "ledger has 1 partitions",
    ),
    "a stage reads nothing declared": (
        with_stage(StageDeclaration("x", ("event",), ())),
        "stages.x.reads.0",
        "topic 'event' is not declared (did you mean 'events'?)",
    ),
    "a stage writes nothing declared": (
        with_stage(StageDeclaration("x", ("events",), ("jobs.wrk.*",))),
        "stages.x.writes.0",
        "'jobs.wrk.*' names no declared topic",
    ),
    "a changelog that is not declared": (
        dedup("dedup.sen.changelog"),
        "stages.dedup.stores.seen.changelog",
        "(did you mean 'dedup.seen.changelog'?)",
    ),
    "a window's changelog without deletion": (
        with_topic("dedup.seen.changelog", cleanup="compact", retention_ms=None),
        "topics.dedup.seen.changelog.cleanup",
        "the changelog of a window store needs cleanup 'compact,delete', not 'compact'",
    ),
    "a changelog without compaction": (
        with_topic("ledger", cleanup="delete", retention_ms=DAY),
        "topics.ledger.cleanup",
        "needs cleanup 'compact', not 'delete'",
    ),
    "states that time deletes": (
        with_topic("replays", cleanup="delete", retention_ms=DAY),
        "topics.replays.cleanup",
        "holds the newest state of each key, which no time may delete; set cleanup to 'compact'",
    ),
    "events of which one a tenant is kept": (
        with_topic("events.received", cleanup="compact", retention_ms=None),
        "topics.events.received.cleanup",
        "holds many records of a key, which compaction would delete; set cleanup to 'delete'",
    ),
    "a window's changelog that forgets within it": (
        with_topic("dedup.seen.changelog", retention_ms=20 * DAY),
        "topics.dedup.seen.changelog.retention_days",
        "less than the window of 7 days and the 14 of events.received, by which dedup may lag: a "
        "rebuilt store would let duplicates pass; set retention_days of dedup.seen.changelog to 21",
    ),
    "two stores on one changelog": (
        dedup("dispatcher.parts.changelog", "key_value"),
        "stages.dispatcher.stores.parts.changelog",
        "already the changelog of dedup.seen",
    ),
    "a route with another priority": (
        replace(load(), routes=(Route("*", "*", "a", "batsh"),)),
        "routes.0.priority",
        "(did you mean 'batch'?); write one of webhook, interactive, batch",
    ),
    "a job type in another pool": (
        replace(load(), job_types={"a": JobType("a", pool="gpu")}),
        "job_types.a.pool",
        "pool 'gpu' is not declared",
    ),
    "a burst without a rate": (
        with_limit(Limit("a", "global", "*", 5, burst=2)),
        "limits.a.burst",
        "a burst is of a rate",
    ),
    "a key without its expression": (
        with_limit(Limit("a", "key", "*", 5)),
        "limits.a.by",
        "set by, as in by: input.customer",
    ),
    "an expression that is none": (
        with_limit(Limit("a", "key", "*", 5, by="input.")),
        "limits.a.by",
        "is no JMESPath",
    ),
    "an expression of another scope": (
        with_limit(Limit("a", "job_type", "*", 5, by="input.x")),
        "limits.a.by",
        "set scope: key",
    ),
    "a tenant per tenant": (
        with_limit(Limit("a", "tenant", "*", 5, per="tenant")),
        "limits.a.per",
        "scope tenant counts each tenant by itself already",
    ),
    "a tenant that is shared": (
        with_limit(Limit("a", "tenant", "*", 5, shared=False)),
        "limits.a.shared",
        "exact already; remove shared",
    ),
    "a type per tenant that is shared": (
        with_limit(Limit("a", "job_type", "*", 5, per="tenant", shared=True)),
        "limits.a.shared",
        "exact already; remove shared",
    ),
    "a burst that is too small for a shared rate": (
        with_limit(Limit("a", "global", rate=Rate(100, 60), burst=2)),
        "limits.a.burst",
        "takes a burst of 3 or more; set burst: 3, or shared: false",
    ),
    "a limit without effect": (
        with_limit(Limit("a", "global", "*")),
        "limits.a",
        "the limit limits nothing",
    ),
    "a heartbeat too slow": (
        replace(load(), leases=LeasePolicy(30, 10, 5)),
        "leases.heartbeat_seconds",
        "not below a third of the term of 30 s",
    ),
    "a margin too wide": (
        replace(load(), leases=LeasePolicy(30, 5, 15)),
        "leases.margin_seconds",
        "not below half of the term of 30 s",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_one_problem_at_its_key(name: str) -> None:
    topology, path, what = BROKEN[name]
    found = validate(topology)
    assert [".".join(map(str, problem.paths[0])) for problem in found] == [path]
    assert what in found[0].what


@pytest.mark.parametrize("scope", ["global", "job_type", "tenant"])
def test_caps_that_are_enforced_may_overlap(scope: str) -> None:
    wide, narrow = Limit("wide", scope, "*", 9), Limit("narrow", scope, "a*", 2)  # type: ignore[arg-type]
    assert validate(replace(load(), limits=(wide, narrow))) == []


def test_the_bounds_themselves_are_allowed() -> None:
    topology = with_topic("payloads", retention_ms=30 * DAY)
    topology = with_topic("dlq", topology, max_message_bytes=1_000_000)
    assert validate(topology) == []


def test_no_record_is_larger_than_what_a_producer_sends() -> None:
    """The producer would refuse it: no topic could be declared that takes it."""
    assert max(size for _, size, _ in largest()) + FRAMING <= PRODUCER_BATCH_BYTES


def test_every_topic_with_a_known_largest_record_is_declared() -> None:
    globs = [glob for glob, _, _ in largest()]
    assert [glob for glob in globs if not fnmatch.filter(load().topics, glob)] == []
