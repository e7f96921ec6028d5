"""Judges what the doctor's own user may do, against what a stage's process needs.

Kafka tells a user its operations on a topic or group that it may describe. A user that may not
describe a topic has no right on it at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streams.doctor.cluster_view import TopicsSeen
from streams.doctor.finding import Check, Finding, Unseen, named
from streams.doctor.group_view import GroupsSeen
from streams.topology.rights import Resource, Right, lacking

TOPICS = Check("rights", "topics")
GROUPS = Check("rights", "groups")
TRANSACTIONS = Check("rights", "transactional ids")

_ASK = Unseen(
    "the doctor does not know of which process to check the rights",
    "run the doctor as the user of a process, with --stage and the process's name",
)


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
            f"Kafka tells nobody the rights on transactional ids ({named(ids)})",
            f"compare with `{acls}`",
        )


def _judged(
    check: Check,
    wanted: Iterable[Right],
    acls: str,
    told: Mapping[str, frozenset[str]],
    hidden: Iterable[str],
) -> Iterator[Finding]:
    """A user who sees a thing may describe it, so no operation at all means that none is told."""
    resource: Resource = "topic" if check is TOPICS else "group"
    known = {(resource, name): given for name, given in told.items() if given}
    known |= dict.fromkeys(((resource, name) for name in hidden), frozenset())
    rights = list(wanted)
    missing = lacking(rights, known)
    for operation in sorted({right.operation for right in missing}):
        names = [right.name for right in missing if right.operation == operation]
        yield check.fail(
            f"the user on Kafka lacks {operation} on {resource} {named(names)}",
            f"grant what `{acls}` prints for this process",
        )
    count = sum((resource, right.name) in known for right in rights)
    untold = any(right.name in told and (resource, right.name) not in known for right in rights)
    if untold:
        untold_why = "these brokers do not tell which rights a user has"
        yield check.skipped(untold_why, f"compare with `{acls}`")
    elif count and not missing:
        yield check.ok(f"the user on Kafka has the {count} rights that are needed")


def unknown(stage: str | None, acls: str) -> Finding:
    """Without a stage, or for one that the topology does not know, nothing can be compared."""
    if stage is None:
        return TOPICS.unseen(_ASK)
    return TOPICS.skipped(f"what {stage} needs is not known", f"see `{acls}`")
