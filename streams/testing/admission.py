"""Lets events and submissions in, through the code that does it behind the operator's API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from ingress.receive.admission import DirectAdmission
from streams.access.principal import BOOTSTRAP
from streams.api.events.batch_request import EventRequest
from streams.api.job_types.input_schema.check import misfits
from streams.api.jobs.job_request import JobRequest
from streams.api.refusal import Refusal, all_invalid, invalid_model
from streams.errors import ConfigError
from streams.event_admission import NewEvent
from streams.serde.codec import TENANT
from streams.serde.ids import new_traceparent, submitted_job_id
from streams.serde.keys import tenant_key
from streams.testing.pipeline_in_memory import PipelineInMemory
from streams.testing.refused import Refused, require_json
from streams.testing.routing import NamedByCaller
from streams.topology.model import Topology
from streams.vault.data_key import new_key_record
from streams.vault.key_encryption import Vault
from streams.vault.keyring import DataKeyring


def event(
    event_type: str,
    payload: object,
    source: str,
    key: str | None,
    subject: str | None,
    occurred_at: datetime | None,
    attributes: Mapping[str, str],
    tenant: str,
) -> NewEvent:
    """An event as the operator's API takes it; bytes are kept as they are.

    Raises:
        Refused: it would be refused there, too.
    """
    raw = bytes(payload) if isinstance(payload, bytes | bytearray) else None
    if raw is None:
        require_json(payload, "the payload")
    try:
        asked = EventRequest(
            source=source,
            event_type=event_type,
            dedup_key=key,
            subject=subject,
            occurred_at=None if occurred_at is None else occurred_at.isoformat(),
            attributes=dict(attributes),
            payload=None if raw is not None else payload,
        )
    except ValidationError as error:
        raise _refused(invalid_model(error)) from None
    made = asked.event(tenant, new_traceparent(), None)
    return made if raw is None else replace(made, payload=raw)


class Admission:
    """The way in of one bench."""

    def __init__(
        self, pipeline: PipelineInMemory, topology: Topology, vault: Vault, keyring: DataKeyring
    ) -> None:
        self._pipeline = pipeline
        self._topology = topology
        self._vault = vault
        self._keyring = keyring
        self._loop = asyncio.new_event_loop()

    @property
    def jobs_are_named(self) -> bool:
        """Whether each event has to name its job type, because no route does."""
        return isinstance(self._topology, NamedByCaller)

    def deliver(self, event: NewEvent, job_type: str | None) -> str:
        """Seal and write an event; returns the id of its job.

        Raises:
            ConfigError: no route gives it a job, or its job is named although routes decide.
        """
        self._name_job(event, job_type)
        job_id = self.admit(event)
        if job_id is None:
            routes = ", ".join(f"{r.source}/{r.event_type}" for r in self._topology.routes)
            raise ConfigError(
                f"no route gives event {event.source}/{event.event_type} a job: the topology's "
                f"routes match {routes or 'nothing'}; deliver() is for events without a job"
            )
        return job_id

    def admit(self, event: NewEvent) -> str | None:
        """Seal and write an event; returns the id of its job if a route gives it one."""
        self._pipeline.set_up((event.tenant_id,))
        if self._keyring.current(event.tenant_id) is None:
            self._make_key(event.tenant_id)
        # A fresh one: an ingress that remembers receipts would keep a redelivery to itself.
        door = DirectAdmission(self._pipeline, self._vault, self._keyring, self._topology)
        return self._loop.run_until_complete(door.submit(event)).job_id

    def submit(
        self,
        type: str,
        input: object,
        key: str | None,
        priority: str | None,
        delay_seconds: float | None,
        timeout_seconds: float | None,
        schema: str | None,
        tenant: str,
    ) -> str:
        """Write a submission, whose input `schema` describes; returns the id of its job.

        Raises:
            Refused: the operator's API would refuse it, too.
        """
        require_json(input, "the input")
        try:
            asked = JobRequest(
                type=type,
                input=input,
                priority=priority,
                delay_seconds=delay_seconds,
                dedup_key=key,
                timeout_seconds=timeout_seconds,
            )
            body = asked.submission(
                self._topology, new_traceparent(), self._pipeline.now, BOOTSTRAP.id
            )
        except ValidationError as error:
            raise _refused(invalid_model(error)) from None
        except Refusal as error:
            raise _refused(error) from None
        faults = [] if schema is None else misfits(schema, body.input)
        if faults:
            raise _refused(all_invalid(faults))
        self._pipeline.set_up((tenant,))
        job_id = submitted_job_id(tenant, key)
        self._pipeline.ask(body, tenant, job_id)
        return job_id

    def close(self) -> None:
        """Release the loop."""
        self._loop.close()

    def _name_job(self, event: NewEvent, job_type: str | None) -> None:
        place = event.source, event.event_type
        if isinstance(self._topology, NamedByCaller):
            if job_type is None:
                raise ConfigError(
                    f"event {'/'.join(place)}: name its job type with job=, or give the bench the "
                    "application's topology, whose routes decide"
                )
            self._topology.named[place] = job_type
        elif job_type is not None:
            raise ConfigError(
                f"event {'/'.join(place)}: leave job={job_type!r} out, as the routes of the "
                "topology decide"
            )

    def _make_key(self, tenant_id: str) -> None:
        record = new_key_record(self._vault, tenant_id)
        key, value = tenant_key(tenant_id, "data_key", record.id), TENANT.encode(record)
        self._pipeline.pipe("tenants", key, value)
        self._keyring.apply(key, value)


def _refused(refusal: Refusal) -> Refused:
    return Refused(refusal.name, refusal.detail)
