"""Judges what the doctor's own user may do, against what a stage's process needs.

Kafka tells a user its operations on a topic or group that it may describe. A user that may not
describe a topic has no right on it at all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from streams.doctor.cluster_view import TopicsSeen
from streams.doctor.finding import Check, Finding, Unseen, named
from streams.doctor.group_view import GroupsSeen
from streams.topology.model import Topology
from streams.topology.rights import Right, rights_of

TOPICS = Check("rights", "topics")
GROUPS = Check("rights", "groups")
TRANSACTIONS = Check("rights", "transactional ids")

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ASK = Unseen(
    "the doctor does not know of which process to check the rights",
    "run the doctor as the user of a process, with --stage and the process's name",
)


def needed(topology: Topology, prefix: str, stage: str, pool: str) -> tuple[Right, ...]:
    """The rights of a stage's process, or of a worker of the pool."""
    return rights_of(f"worker-{pool}" if stage == "worker" else stage, topology, prefix)


def of_topics(rights: Iterable[Right], acls: str, seen: TopicsSeen) -> Iterator[Finding]:
    """The topics that exist; one that is hidden from the user exists or not, and lacks all.

    `acls` is the command that prints what to grant.
    """
    wanted = [right for right in rights if right.resource == "topic"]
    yield from _judged(TOPICS, wanted, acls, seen.operations, _blind(seen))


def _blind(seen: TopicsSeen) -> list[str]:
    return [name for name, right in seen.hidden.items() if right == "Describe"]


def of_groups(
    rights: Iterable[Right], prefix: str, acls: str, seen: GroupsSeen
) -> Iterator[Finding]:
    """The groups of stages and workers; others are not looked at."""
    wanted = [right for right in rights if right.resource == "group"]
    told = {prefix + name: group.operations for name, group in seen.groups.items()}
    yield from _judged(GROUPS, wanted, acls, told, [prefix + name for name in seen.hidden])


def of_transactions(rights: Iterable[Right], acls: str) -> Iterator[Finding]:
    """Kafka tells nobody these rights."""
    ids = {f"{r.name}{'...' * r.prefixed}" for r in rights if r.resource == "transactional_id"}
    if ids:
        yield TRANSACTIONS.skipped(
            Unseen(
                f"Kafka tells nobody the rights on transactional ids ({named(ids)})",
                f"compare with `{acls}`",
            )
        )


def _judged(
    check: Check,
    wanted: Iterable[Right],
    acls: str,
    told: Mapping[str, frozenset[str]],
    hidden: Iterable[str],
) -> Iterator[Finding]:
    """A user who sees a thing may describe it, so no operation at all means that none is told."""
    known = {name: given for name, given in told.items() if given}
    known |= dict.fromkeys(hidden, frozenset())
    lacking, untold, count = defaultdict(list), False, 0
    for right in wanted:
        if right.name in known:
            count += 1
            if _WORD.sub("_", right.operation).upper() not in known[right.name]:
                lacking[right.operation].append(right.name)
        elif right.name in told:
            untold = True
    for operation, names in sorted(lacking.items()):
        yield check.fail(
            f"the user on Kafka lacks {operation} on {check.name.removesuffix('s')} {named(names)}",
            f"grant what `{acls}` prints for this process",
        )
    if untold:
        untold_why = "these brokers do not tell which rights a user has"
        yield check.skipped(Unseen(untold_why, f"compare with `{acls}`"))
    elif count and not lacking:
        yield check.ok(f"the user on Kafka has the {count} rights that are needed")


def unknown(stage: str | None, acls: str) -> Finding:
    """Without a stage, or for one that the topology does not know, nothing can be compared."""
    if stage is None:
        return TOPICS.skipped(_ASK)
    return TOPICS.skipped(Unseen(f"what {stage} needs is not known", f"see `{acls}`"))
