"""Limits: what fills each bucket and what waits for it, in pages of buckets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import orjson

from streams.api.limits.circuits import circuits_json
from streams.api.limits.grants_table import MOST, Granted, granted
from streams.api.limits.uses import Use, uses
from streams.api.pauses.paused import Pauses, all_pauses, of_bucket, pause_json, who_json
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.rows.paging import FilterValues, Operator, Page, PagedList, PageQuery
from streams.api.tenants.table import all_limits
from streams.http.moments import rfc3339
from streams.limits.buckets import Bucket, Buckets
from streams.process.wall_clock import wall_ms
from streams.topology.describe import holds
from streams.topology.limits import Limit
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of all buckets at `now` (milliseconds)."""

    uses: dict[Bucket, Use]
    granted: dict[Bucket, Granted]
    pauses: Pauses
    now: int


class Place(NamedTuple):
    """Where a bucket stands in the list: by its limit's number, its tenant and its key."""

    number: int
    tenant_id: str = ""
    key: str = ""


def _page(connection: sqlite3.Connection, query: PageQuery, operator: Operator) -> Page:
    """Return limits with a page of their buckets, by name, key and tenant.

    The topology's come first, in its order, then those that tenants have of their own. A limit
    whose buckets are on several pages is on each of these pages. Each page has all `pauses` and
    all `circuits` for which jobs wait; `complete` is false if there are more jobs than one answer
    counts.
    """
    numbered, pauses = _numbered(connection, operator.topology), all_pauses(connection)
    held = granted(connection)
    counted = uses(connection, numbered.buckets, query.filters.get("tenant_id"))
    for bucket in (bucket for bucket, each in held.items() if each.held):
        counted.of.setdefault(bucket, Use())  # nothing may run or wait in it
    seen = Seen(counted.of, held, pauses, wall_ms())
    cursor = query.cursor
    behind = None if cursor is None else Place(cursor.at, *_parts(cursor))
    found = sorted(_places(numbered, seen.uses, query.filters))
    left = [place for place in found if behind is None or place > behind]
    shown = left[: query.limit]
    items = [
        _limit_with_buckets_json(numbered.limits[number], list(places), seen)
        for number, places in groupby(shown, lambda place: place.number)
    ]
    more = len(left) > len(shown)
    beside = {
        "pauses": [pause_json(pause) for pause in pauses.values()],
        "circuits": circuits_json(seen.uses, seen.now),
        "complete": counted.are_complete and len(held) < MOST,
    }
    return Page(tuple(items), _cursor(shown[-1]) if more else None, beside)


@dataclass(frozen=True, slots=True)
class Numbered:
    """All limits in the order of the list, each with its tenant (empty: of the topology).

    `numbers` finds them again by tenant and name.
    """

    limits: list[tuple[str, Limit]]
    numbers: dict[tuple[str, str], int]
    buckets: Buckets

    def number_of(self, bucket: Bucket) -> int | None:
        """The number of a bucket's limit; None for that of a mark, which is no limit."""
        own = self.numbers.get((bucket.tenant_id, bucket.limit))
        return self.numbers.get(("", bucket.limit)) if own is None else own


def _numbered(connection: sqlite3.Connection, topology: Topology) -> Numbered:
    """The topology's limits in its order, then those that tenants have of their own."""
    buckets = Buckets(topology.limits, circuits=bool(topology.breakers))
    limits = [("", limit) for limit in topology.limits]
    for tenant_id, own in all_limits(connection).items():
        buckets.set_own(tenant_id, own)
        limits += [(tenant_id, limit) for limit in own]
    numbers = {(tenant_id, limit.name): n for n, (tenant_id, limit) in enumerate(limits)}
    return Numbered(limits, numbers, buckets)


def _places(numbered: Numbered, uses: dict[Bucket, Use], filters: FilterValues) -> Iterator[Place]:
    """Where the buckets that are asked for stand; a limit without buckets has a place, too."""
    name, key, tenant_id = (filters.get(filter_) for filter_ in ("name", "key", "tenant_id"))
    keys = None if key is None else (key, orjson.dumps(key).decode())
    empty = {
        number
        for number, (of, limit) in enumerate(numbered.limits)
        if limit.name == name or (name is None and key is None and tenant_id in (None, of))
    }
    for bucket in uses:
        number = numbered.number_of(bucket)
        if (
            number is not None
            and name in (None, bucket.limit)
            and (keys is None or bucket.key in keys)
            and tenant_id in (None, bucket.tenant_id)
        ):
            empty.discard(number)
            yield Place(number, bucket.tenant_id, bucket.key)
    yield from map(Place, empty)


def _parts(cursor: Cursor) -> tuple[str, str]:
    """Tenant and key of the last bucket shown; a tenant's id has no slash."""
    tenant_id, _, key = cursor.id.partition("/")
    return tenant_id, key


def _cursor(place: Place) -> Cursor:
    return Cursor(place.number, f"{place.tenant_id}/{place.key}")


def _limit_with_buckets_json(numbered: tuple[str, Limit], places: list[Place], seen: Seen) -> Json:
    tenant_id, limit = numbered
    found = (Bucket(limit.name, place.tenant_id, place.key) for place in places)
    return {
        "name": limit.name,
        "tenant_id": tenant_id or None,
        "scope": limit.scope,
        "match": limit.match,
        "by": limit.by,
        "per": limit.per,
        "cap": limit.concurrency,
        "rate": None if limit.rate is None else str(limit.rate),
        "burst": None if limit.rate is None else limit.most_at_once,
        "holds": holds(limit),
        "buckets": [_bucket_json(limit, each, seen) for each in found if each in seen.uses],
    }


def _bucket_json(limit: Limit, bucket: Bucket, seen: Seen) -> Json:
    """Return what an operator sees of a bucket.

    Of a limit that is not shared, only the dispatcher knows the next token of a rate.
    """
    of_all = seen.granted.get(bucket, Granted(0, 0))
    use, pause = seen.uses[bucket], of_bucket(seen.pauses, limit, bucket)
    oldest = None if use.oldest is None else round(max(0, seen.now - use.oldest) / 1000, 3)
    return {
        "tenant_id": bucket.tenant_id or None,
        "key": bucket.key or None,
        "used": use.used,
        "held_idle": max(0, of_all.held - use.used),
        "waiting": use.waiting,
        "oldest_seconds": oldest,
        "next_token_at": rfc3339(of_all.next_at) if of_all.next_at > seen.now else None,
        "paused": None if pause is None else who_json(pause),
    }


LISTING = PagedList("limits", ("/v1/limits",), _page, {"name": (), "key": (), "tenant_id": ()})
