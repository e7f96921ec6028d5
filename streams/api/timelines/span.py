"""A span of a timeline: something that took time, below what it was part of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from streams.api.rows.json_values import Json
from streams.http.moments import rfc3339

SpanKind = Literal[
    "received",
    "redelivery",
    "dead_letter",
    "job",
    "replay",
    "child",
    "queued",
    "run",
    "step",
    "wait",
    "effect",
    "delivery",
    "attempt",
]
_DETAIL_CHARS = 500


@dataclass(frozen=True, slots=True)
class Span:
    """One span; times in milliseconds.

    `ends` is None while it goes on. `begins` is not `exact` where only what came before it is
    recorded: then it is the end of that. `parent` is the id of another span.
    """

    kind: SpanKind
    name: str
    id: str
    parent: str | None
    begins: int
    ends: int | None
    status: str
    link: str
    detail: str | None = None
    failed: bool = False
    exact: bool = True
    trace_id: str | None = None


def span_json(span: Span) -> Json:
    """Return a span as the API shows it."""
    return {
        "kind": span.kind,
        "name": span.name,
        "id": span.id,
        "parent": span.parent,
        "from": rfc3339(span.begins),
        "to": rfc3339(span.ends),
        "status": span.status,
        "detail": None if span.detail is None else span.detail[:_DETAIL_CHARS],
        "link": span.link,
        "failed": span.failed,
        "exact": span.exact,
        "trace_id": span.trace_id,
    }


def link(*parts: str) -> str:
    """Return the path of the call that shows what a span is about."""
    return "/".join(("/v1", *(quote(part, safe=":@~") for part in parts)))
