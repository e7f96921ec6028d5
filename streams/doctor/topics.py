"""Judges the topics: what `topology plan` would change, co-partitioning, replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from streams.doctor.cluster_view import TopicsSeen
from streams.doctor.finding import Check, Finding, counted, named
from streams.operator.broker_view import health
from streams.topology.cluster import MIN_IN_SYNC, REPLICATION
from streams.topology.model import Topology
from streams.topology.plan import ChangeConfig, Consent, CreateTopic, Refusal, compare

SEEN = Check("topics", "visible")
DECLARED = Check("topics", "as declared")
PARTITIONS = Check("topics", "partitions")
REPLICAS = Check("topics", "replicas")


def hidden(seen: TopicsSeen) -> Iterator[Finding]:
    """Topics that this user may not see are no missing topics."""
    by_right = defaultdict(list)
    for name, right in seen.hidden.items():
        by_right[right].append(name)
    for right, names in sorted(by_right.items()):
        yield SEEN.skipped(
            f"the user on Kafka lacks the right {right} on {counted(len(names), 'topic')}: "
            f"{named(names)}",
            "grant it, or run the doctor as the user of `tidegate topology apply`",
        )


def declared(topology: Topology, seen: TopicsSeen, prefix: str, apply: str) -> Iterator[Finding]:
    """What `tidegate topology plan` finds, for the topics that may be seen.

    `apply` is the command that mends what can be mended so. A cluster of fewer than three brokers
    is told once, by its number, and not for each topic.
    """
    visible = {n: t for n, t in topology.topics.items() if prefix + n not in seen.hidden}
    asked = replace(topology, topics=visible)
    few = seen.cluster.brokers < REPLICATION
    plan = compare(asked, seen.cluster, prefix, Consent(unsafe=few))
    missing = [step.topic for step in plan.of(CreateTopic)]
    if missing:
        exist = "does not exist" if len(missing) == 1 else "do not exist"
        yield DECLARED.fail(f"{counted(len(missing), 'topic')} {exist}: {named(missing)}", apply)
    yield from _changes(plan.of(ChangeConfig), apply)
    yield from _refusals(plan.refusals)
    for note in plan.notes:
        text, _, remedy = note.partition(": ")
        yield DECLARED.warn(text, remedy or "tidegate topology plan")
    if plan.empty and visible:
        yield DECLARED.ok(f"{counted(len(visible), 'topic')} with their settings as declared")


def _changes(steps: list[ChangeConfig], apply: str) -> Iterator[Finding]:
    """Topics that need the same changes are told together."""
    by_topic, alike = defaultdict(list), defaultdict(list)
    for step in steps:
        by_topic[step.topic].append(f"{step.setting} is {step.before}, not {step.after}")
    for topic, changes in by_topic.items():
        alike[", ".join(changes)].append(topic)
    for told, names in alike.items():
        yield DECLARED.fail(f"{named(names)}: {told}", apply)


def _refusals(refusals: Iterable[Refusal]) -> Iterator[Finding]:
    """What `apply` refuses. The doctor does not advise to allow it: that moves or loses records."""
    alike = defaultdict(list)
    for refusal in refusals:
        alike[refusal.why].append(refusal.topic)
    for why, names in alike.items():
        what = why.partition(": ")[0] if " partitions, " in why else why.rpartition("; ")[0]
        remedy = _DECLARE if " partitions, " in why else why.rpartition("; ")[2]
        yield DECLARED.fail(f"{named(names)}: {what}", remedy)


_DECLARE = (
    "declare in topology.yaml the partitions that the topic has; `tidegate topology plan` says "
    "what another number would cost"
)


def co_partitioned(topology: Topology, seen: TopicsSeen, prefix: str) -> Iterator[Finding]:
    """Topics that meet in a stage are keyed by tenant, so each needs as many partitions."""
    widths = defaultdict(list)
    for topic in topology.topics.values():
        found = seen.partitions.get(prefix + topic.name)
        if found is not None:
            widths[len(found)].append(topic.name)
    if len(widths) > 1:
        told = "; ".join(f"{width}: {named(names)}" for width, names in sorted(widths.items()))
        yield PARTITIONS.fail(
            f"topics that meet in a stage have different numbers of partitions ({told}), so a "
            "tenant's records do not meet",
            "see docs/flow.md, Topics: start anew under another topic_prefix, or recreate the "
            "topics that differ while they are empty",
        )
    elif widths:
        yield PARTITIONS.ok(f"each topic that is keyed by tenant has {next(iter(widths))}")


def replicas(seen: TopicsSeen) -> Iterator[Finding]:
    """Partitions that cannot be written, or would lose records with one more broker."""
    found = health(part for parts in seen.partitions.values() for part in parts)
    behind = named((f"broker {id_}" for id_ in found.behind), 5)
    mend = f"start or mend {behind}" if behind else "look at the brokers' logs"
    if found.leaderless:
        yield REPLICAS.fail(
            f"{counted(found.leaderless, 'partition')} without a leader can be neither read nor "
            f"written: {named(_leaderless(seen))}",
            mend,
        )
    if found.below_min_in_sync:
        yield REPLICAS.fail(
            f"{counted(found.below_min_in_sync, 'partition')} takes no record, because fewer than "
            f"{MIN_IN_SYNC} replicas are in sync",
            mend,
        )
    elif found.under_replicated:
        yield REPLICAS.warn(
            f"{counted(found.under_replicated, 'partition')} of {found.partitions} lack replicas "
            "in sync",
            mend,
        )
    if found.partitions and not (found.leaderless or found.under_replicated):
        yield REPLICAS.ok(f"every replica of {found.partitions} partitions is in sync")


def _leaderless(seen: TopicsSeen) -> Iterator[str]:
    for name, parts in seen.partitions.items():
        for part in parts:
            if part.leader is None or part.leader.id < 0:
                yield f"{name}-{part.id}"
