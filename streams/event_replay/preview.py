"""Tells what a replay would do, without doing it: it reads the same events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from streams.event_reader.counts import Counts, notes
from streams.event_reader.scan import Found, Scan
from streams.event_replay.eligibility import Closed, Eligibility, Reason
from streams.event_replay.spans import asked_spans, begun, purged, selection
from streams.http.moments import rfc3339
from streams.kafka.admin import admin_client
from streams.serde.replay_records import ReplayAsked
from streams.settings import Settings
from streams.topology.model import Topology

MOST_RECORDS = 1_000_000
"""A preview reads so many records at most, about a minute's work."""

_SAMPLES = 5


class TooWide(Exception):
    """A selection in which `records` records lie, more than a preview reads."""

    def __init__(self, records: int) -> None:
        super().__init__(f"{records} records")
        self.records = records


@dataclass(frozen=True, slots=True)
class Preview:
    """Reads the topic itself; `closed` says why a tenant gets no jobs."""

    settings: Settings
    topology: Topology
    closed: Closed

    def __call__(self, asked: ReplayAsked) -> dict[str, Any]:
        """Count events and jobs; it takes a second for each 25,000 records or so.

        Raises:
            TooWide: there are too many records.
            KafkaUnavailable, KafkaException: Kafka does not answer.
        """
        admin, prefix = admin_client(self.settings), self.settings.topic_prefix
        where = asked_spans(admin, prefix, self.topology.partitions, asked)
        records = sum(span.end - span.first for span in where.values())
        if records > MOST_RECORDS:
            raise TooWide(records)
        eligibility = Eligibility(admin, prefix, self.topology, asked.job, self.closed)
        scan = Scan(self.settings, where, selection(asked))
        counts, jobs, skipped = Counts(), Counter[str](), Counter[str]()
        samples = list[dict[str, Any]]()
        for found in scan:
            counts.add(found)
            type_, reason = eligibility.job_for(found.event)
            (jobs if type_ else skipped)[type_ or str(reason)] += 1
            if len(samples) < _SAMPLES:
                samples.append(_sample(found, type_, reason))
        return counts.json() | {
            "jobs": jobs.total(),
            "jobs_by_type": dict(jobs.most_common()),
            "skipped": dict(skipped.most_common()),
            "samples": samples,
            "unreadable": scan.progress.unreadable,
            "notes": [
                *purged(begun(asked, where), where),
                *notes(scan.progress, where, selection(asked)),
            ],
        }


def _sample(found: Found, job: str | None, reason: Reason | None) -> dict[str, Any]:
    event = found.event
    return {
        "event_id": event.event_id,
        "tenant_id": event.tenant_id,
        "source": event.source,
        "event_type": event.event_type,
        "subject": event.subject,
        "at": rfc3339(found.at),
        "job": job,
        "skipped": reason,
    }
