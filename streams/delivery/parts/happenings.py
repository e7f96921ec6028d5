"""Takes in what happens: events, ends of jobs and their waits for a person, and approvals."""

from __future__ import annotations

from typing import ClassVar

from streams.delivery import messages
from streams.delivery.endpoint import Endpoint
from streams.delivery.history import SLACK_MS
from streams.delivery.inputs import ended_at, happening, job_told
from streams.delivery.part import Part
from streams.delivery.step import Step
from streams.runtime.part import reads
from streams.runtime.processor import Record
from streams.serde.delivery_records import RECOVER, DeliveryCommand, Outgoing
from streams.serde.delivery_states import PARKED
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job
from streams.tenants.endpoints import CALLBACKS

_EARLY_CALLBACK = b"C"


class Happenings(Part):
    """Announces messages, and makes the rows of callbacks."""

    keys: ClassVar = {_EARLY_CALLBACK: "tenants with callbacks before their endpoint was known"}

    @reads("events")
    def event(self, step: Step, record: Record) -> None:
        """Announce an event."""
        self._announce(step, record)

    @reads("approvals")
    def approval(self, step: Step, record: Record) -> None:
        """Announce that an approval is asked for, or has ended."""
        self._announce(step, record)

    @reads("jobs")
    def job(self, step: Step, record: Record) -> None:
        """Announce what became of a job, and call back whoever submitted it."""
        job = job_told(record, step)
        if job is None:
            return
        step.store.raise_watermark(record.timestamp)
        message, happened = messages.of_job(job, step.now), ended_at(job, record)
        step.announce(message, happened)
        if job.status in TERMINAL and job.tenant_id not in self.shared.closed.erased:
            self._call_back(step, job, message, happened)

    def _announce(self, step: Step, record: Record) -> None:
        told = happening(record, step)
        if told is not None:
            step.store.raise_watermark(record.timestamp)
            step.announce(*told)

    def _call_back(self, step: Step, job: Job, message: Outgoing, happened: int) -> None:
        if job.callback_url and not step.enter_callback(message, job.callback_url, happened):
            step.store.queue.put(_EARLY_CALLBACK + job.tenant_id.encode(), b"")

    def wants_more(self, step: Step, endpoint: Endpoint, since: int, opened: int) -> None:
        """Recover the callbacks that were read before the setting that preceded them.

        Rows have a lower bound of the broker's time, so one may seem older than the setting.
        """
        early = _EARLY_CALLBACK + endpoint.tenant_id.encode()
        if endpoint.id != CALLBACKS or step.store.queue.get(early) is None:
            return
        step.store.queue.delete(early)
        step.recover(
            DeliveryCommand(
                f"cmd_callbacks_{endpoint.since}",
                endpoint.tenant_id,
                endpoint.id,
                RECOVER,
                None,
                max(0, endpoint.since - SLACK_MS),
                step.now + 1,
                (PARKED,),
                None,
                None,
                step.now,
            )
        )
