"""Topics of earlier versions, which no process uses any more.

Workers got their leases from `jobs.work.<pool>` and their answers from `jobs.replies`. They have a
link to the owners of partitions instead (docs/link.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

_REPLIES, _WORK = "jobs.replies", "jobs.work."


def is_retired(topic: str) -> bool:
    """Whether a topic (without the prefix) is one of them. A file that declares it still loads."""
    return topic == _REPLIES or topic.startswith(_WORK)


def notes(topics: Iterable[str], prefix: str, deleted: Collection[str]) -> Iterator[str]:
    """A remark for each of them on a cluster; `deleted` are topics that will be deleted."""
    for name in sorted(topics):
        bare = name.removeprefix(prefix)
        if name.startswith(prefix) and is_retired(bare) and bare not in deleted:
            yield (
                f"{name} is of an earlier version, whose workers read it: once each dispatcher and "
                f"worker runs this version, delete it with --delete {bare}"
            )
