"""The values by which limits of the scopes `source` and `key` count a job.

They stand on the job's row, so that everybody who reads it counts alike, and are worked out when
the job is made, when it begins anew, and when the topology changed.

A value of scope `key` is the JSON text of what the limit's expression finds on the job. What it
does not find, or fails to, is `null`: that is a value like any other, so such jobs are counted too,
visibly. A value longer than `LONGEST` bytes stands as its beginning and its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from ingress.formats.paths import compile_path
from streams import user_json
from streams.limits import places
from streams.limits.buckets import MARK, Keys
from streams.serde.records import Job, LimitKey
from streams.serde.replacing import replace
from streams.topology.limits import KEYED, Limit

LONGEST = 256
_BEGINNING = 128


def keyed(job: Job, limits: tuple[Limit, ...]) -> Job:
    """The job with the values by which these limits count it; equal if nothing changed.

    Its marks (`paused`) and the places of its calls stay.
    """
    found = [limit for limit in limits if limit.scope in KEYED]
    own = tuple(_keys(job, found)) if found else ()
    marks = (key for key in places.of_job_alone(job.limit_keys) if key.limit.startswith(MARK))
    keys = (*own, *marks, *places.of_calls(job.limit_keys)) if job.limit_keys else own
    return job if keys == job.limit_keys else replace(job, limit_keys=keys)


def document(job: Job) -> dict[str, Any]:
    """What an expression is evaluated on."""
    event = None if job.event is None else asdict(job.event)
    names = ("job_id", "tenant_id", "type", "pool", "priority", "workflow_id")
    return {**{name: getattr(job, name) for name in names}, "event": event, "input": _input(job)}


def as_text(keys: Sequence[Mapping[str, str]]) -> str | None:
    """The limit keys of a row of `jobs`, as a column holds them."""
    pairs = [(each["limit"], each["key"]) for each in keys]
    return orjson.dumps(pairs).decode() if pairs else None


def from_text(text: str | None) -> Keys:
    """The limit keys that a column holds."""
    return () if text is None else tuple((limit, key) for limit, key in orjson.loads(text))


def _keys(job: Job, limits: list[Limit]) -> Iterator[LimitKey]:
    on: dict[str, Any] | None = None
    for limit in limits:
        if limit.scope == "source":
            value = None if job.event is None else job.event.source
            if value is not None and fnmatchcase(value, limit.match):
                yield LimitKey(limit.name, _short(value))
            continue
        on = document(job) if on is None else on
        text = _text(_compiled(limit.by or "")(on))
        if limit.match == "*" or fnmatchcase(_plain(text), limit.match):
            yield LimitKey(limit.name, _short(text))


def _input(job: Job) -> Any:
    try:
        return user_json.read(job.input)
    except ValueError:
        return None


def _text(value: Any) -> str:
    try:
        return user_json.write(value, sort_keys=True).decode()
    except TypeError:  # a value that no JSON holds
        return "null"


def _plain(text: str) -> str:
    """The value of a JSON text that is a string; any other text as it is."""
    return str(user_json.read(text)) if text.startswith('"') else text


def _short(text: str) -> str:
    raw = text.encode()
    if len(raw) <= LONGEST:
        return text
    return raw[:_BEGINNING].decode(errors="ignore") + blake2b(raw, digest_size=16).hexdigest()


_compiled = lru_cache(maxsize=256)(compile_path)
