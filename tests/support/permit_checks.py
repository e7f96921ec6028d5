"""What must hold of shared limits at every committed state of a dispatcher's partitions.

No partition runs more jobs than it holds permits, none holds more than its owner knows of, and all
together hold no more than the cap, grants under way among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from streams.dispatcher import permit_rows
from streams.dispatcher.live_index import entries
from streams.limits.buckets import Bucket, Buckets
from streams.limits.permits import Holding
from streams.limits.sharing import Share
from streams.serde.ids import owner_of
from streams.serde.job_states import LEASED
from streams.state.store import KeyValueStore
from streams.topology.limits import Limit

Held = dict[tuple[int, Bucket], Holding]
Known = dict[tuple[int, Bucket], Share]


def overruns(
    parts: Mapping[int, KeyValueStore],
    jobs: Mapping[int, KeyValueStore],
    limits: tuple[Limit, ...],
    *,
    fits: bool = True,
) -> Iterator[str]:
    """What is broken; `fits` says that no cap was lowered or became a shared one lately."""
    held: Held = {(p, b): h for p, store in parts.items() for b, h in permit_rows.holdings(store)}
    known = _known(parts)
    for (partition, bucket), holding in held.items():
        share = known.get((partition, bucket))
        is_same = share is not None and share.incarnation == holding.incarnation
        outstanding = share.outstanding if share is not None and is_same else 0
        if holding.held > outstanding:
            yield f"{partition} holds {holding.held} of {bucket}, its owner knows of {outstanding}"
    if fits:
        yield from _over_caps(held, known, limits)
        yield from _over_held(held, jobs, limits)


def running(jobs: Mapping[int, KeyValueStore], limits: tuple[Limit, ...]) -> Counter[Bucket]:
    """How many jobs run in each shared bucket, over all partitions."""
    found: Counter[Bucket] = Counter()
    for (_, bucket), count in _used(jobs, limits).items():
        found[bucket] += count
    return found


def _known(parts: Mapping[int, KeyValueStore]) -> Known:
    """What owners know of each holder."""
    return {
        (holder, bucket): share
        for partition, store in parts.items()
        for bucket in permit_rows.owned(store)
        if owner_of(bucket.limit, bucket.key, len(parts)) == partition
        for holder, share in permit_rows.shares(store, bucket).items()
    }


def _over_caps(held: Held, known: Known, limits: tuple[Limit, ...]) -> Iterator[str]:
    out: Counter[Bucket] = Counter()
    for (partition, bucket), share in known.items():
        holding = held.get((partition, bucket))
        if holding is not None and holding.incarnation == share.incarnation:
            out[bucket] += share.outstanding  # no other grant is taken
    caps = {limit.name: limit.concurrency or 0 for limit in limits if limit.is_shared}
    for bucket, permits in out.items():
        if permits > caps.get(bucket.limit, permits):
            yield f"{permits} permits of {bucket} are out, of {caps[bucket.limit]}"


def _over_held(
    held: Held, jobs: Mapping[int, KeyValueStore], limits: tuple[Limit, ...]
) -> Iterator[str]:
    for (partition, bucket), count in _used(jobs, limits).items():
        holding = held.get((partition, bucket))
        if count > (holding.held if holding is not None else 0):
            yield f"{partition} runs {count} of {bucket}, and holds {holding}"


def _used(
    jobs: Mapping[int, KeyValueStore], limits: tuple[Limit, ...]
) -> Counter[tuple[int, Bucket]]:
    buckets, used = Buckets(limits), Counter[tuple[int, Bucket]]()
    for partition, store in jobs.items() if buckets.shared else ():
        for _, live in entries(store):
            if live.status in LEASED:
                found = (b for b in buckets.all(live) if b.limit in buckets.shared)
                used.update((partition, bucket) for bucket in found)
    return used
