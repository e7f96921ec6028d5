"""The subjects of a schema registry: which schema the values of each topic have.

A subject is a topic's name and `-value` (Confluent's TopicNameStrategy). Its versions are those of
its schema in `schemas/ids.lock`; several topics may share a schema. Keys are no Avro. Changelogs
that only their own stage reads have no subject.
"""

from __future__ import annotations

from collections.abc import Sequence

from streams.serde.schemas import Schema, by_id

_OF_TOPIC = {
    "events.received": "envelope",
    "events": "envelope",
    "duplicates": "duplicate",
    "schedule": "schedule",
    "jobs": "job",
    "jobs.backlog": "backlog",
    "jobs.commands": "command",
    "jobs.held": "held",
    "jobs.live": "live",
    "jobs.progress": "progress",
    "jobs.types": "job_types",
    "ledger": "ledger_entry",
    "approvals": "approval",
    "schedules": "schedule_row",
    "workflows": "workflow",
    "audit": "audit",
    "dlq": "dead_letter",
    "quarantine": "quarantine",
    "rejections": "rejection",
    "tenants": "tenant",
    "deliveries": "delivery",
    "deliveries.attempts": "delivery_attempt",
    "deliveries.commands": "delivery_command",
    "deliveries.endpoints": "endpoint_state",
    "ingress.rates": "rate_report",
    "limits.claims": "limit_claim",
    "limits.grants": "limit_grant",
    "replays": "replay",
    "bulk": "bulk",
}
_VALUE = "-value"


def schema_name(topic: str) -> str | None:
    """The name of the schema of a topic's values; None if they are not Avro."""
    return _OF_TOPIC.get(topic)


def subject(topic: str, prefix: str) -> str:
    """The subject of a topic's values; `prefix` is that of all topics of the pipeline."""
    return f"{prefix}{topic}{_VALUE}"


def versions(wanted: str, prefix: str, topics: Sequence[str]) -> tuple[Schema, ...]:
    """Every version under a subject, oldest first; empty if there is no such subject."""
    for topic in topics:
        name = schema_name(topic)
        if name is not None and subject(topic, prefix) == wanted:
            return _versions(name)
    return ()


def subjects(prefix: str, topics: Sequence[str], of: str | None = None) -> list[str]:
    """All subjects in order, or those of one schema's name."""
    named = {topic: schema_name(topic) for topic in topics}
    found = (topic for topic, name in named.items() if name and of in (None, name))
    return sorted(subject(topic, prefix) for topic in found)


def _versions(name: str) -> tuple[Schema, ...]:
    found = (schema for schema in by_id().values() if schema.name == name)
    return tuple(sorted(found, key=lambda schema: schema.version))
