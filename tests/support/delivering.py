"""A delivery stage in memory with a scripted sender; the test reads what it sends and writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from streams.delivery.attempts import Attempt, Ended
from streams.delivery.history import Part
from streams.delivery.stage import stage
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import Record
from streams.serde.codec import (
    DELIVERY,
    DELIVERY_ATTEMPT,
    DELIVERY_COMMAND,
    ENDPOINT_STATE,
    ENVELOPE,
    JOB,
    TENANT,
)
from streams.serde.delivery_records import (
    Delivery,
    DeliveryAttempt,
    DeliveryCommand,
    EndpointState,
)
from streams.serde.ids import new_id
from streams.serde.keys import join, tenant_key
from streams.serde.records import Job, TenantRecord
from streams.tenants.endpoints import EndpointSettings, endpoint_key, endpoint_record
from streams.topology.load import load
from streams.vault.key_encryption import local_vault
from support.operator_cluster import make_event, make_job

VAULT = local_vault(b"k" * 32)
Answer = Callable[[Attempt], dict[str, Any] | None]
"""What an attempt comes to, as fields of `Ended`; None: it does not end."""


def ok(_: Attempt) -> dict[str, Any]:
    return {"status": 200}


def status(code: int, **fields: Any) -> Answer:
    return lambda _: {"status": code, "error": f"status_{code}", **fields}


def hang(_: Attempt) -> None:
    return None


class ScriptedSender:
    """Ends each attempt at once, as `answer` says; attempts that hang stand in `under_way`."""

    def __init__(self) -> None:
        self.answer: Answer = ok
        self.sent: list[Attempt] = []
        self.under_way: list[Attempt] = []
        self._ended: dict[int, list[Ended]] = defaultdict(list)

    def send(self, partition: int, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self.sent.append(attempt)
            self.end(attempt, self.answer(attempt), partition)

    def end(self, attempt: Attempt, fields: dict[str, Any] | None, partition: int = 0) -> None:
        if fields is None:
            self.under_way.append(attempt)
            return
        ended = Ended(attempt.row, at=1, duration_ms=5, url=attempt.url, probe=attempt.probe)
        self._ended[partition].append(replace(ended, **fields))

    def ended(self, partition: int) -> list[Ended]:
        return self._ended.pop(partition, [])

    def forget(self, partition: int) -> None:
        self._ended.pop(partition, None)
        self.under_way.clear()

    def urls(self) -> list[str]:
        return [attempt.url for attempt in self.sent]


class DriverHistory:
    """Reads the driver's topics again, `most` records at once, unless it is `away`.

    It answers a question only after being asked it `patience` times in a row.
    """

    def __init__(self) -> None:
        self.driver: TopologyTestDriver | None = None
        self.most = 1_000
        self.away = False
        self.patience = 1
        self._asked: tuple[tuple[str, int, int], int] | None = None
        self.read_before: list[Record] = []
        self.forgot = 0

    def read(self, topic: str, partition: int, since: int, offset: int) -> Part | None:
        assert self.driver is not None
        question = topic, since, offset
        known = self._asked
        times = known[1] + 1 if known is not None and known[0] == question else 1
        self._asked = question, times
        if self.away or times < self.patience:
            return None
        records = [r for r in self.driver.output(topic) if r.partition == partition]
        found = [r for r in records if r.offset >= offset and (offset >= 0 or r.timestamp >= since)]
        part = found[: self.most]
        self.read_before += part
        return Part(part, part[-1].offset + 1 if part else offset, done=part == found)

    def forget(self, partition: int) -> None:
        self.forgot += 1
        self._asked = None


class Deliveries:
    """One partition's delivery stage, on a virtual clock; `driver` has the stages beside it."""

    def __init__(self, driver: TopologyTestDriver | None = None) -> None:
        self.topology = load()
        self.sender = ScriptedSender()
        self.history = DriverHistory()
        self.stage = stage(self.topology, self.sender, self.history)
        self.driver = driver or TopologyTestDriver([self.stage], self.topology, partitions=1)
        self.history.driver = self.driver
        self.driver.advance(0.1)

    def endpoint(
        self,
        id_: str = "crm",
        tenant: str = "acme",
        *,
        at: int = 0,
        created: int = 0,
        keys: Sequence[Any] = (),
        **settings: Any,
    ) -> None:
        """Set an endpoint; the operator's clock says `at`, the record's time is `created`."""
        self.driver.advance(0.01)
        given = {"url": f"https://{id_}.example/hook", "set_at": self.driver.now, **settings}
        record = endpoint_record(
            VAULT, tenant, id_, EndpointSettings(**given), keys, {}, at or self.driver.now
        )
        key = tenant_key(tenant, "endpoint", id_)
        self.driver.pipe("tenants", key, TENANT.encode(record), timestamp=created or None)
        self.driver.advance(0.01)

    def rotate(self) -> None:
        """Give the endpoint `crm`, which was set just like this, another key."""
        self.endpoint(keys=[endpoint_key(VAULT, "acme", "crm", b"whsec_c2VjcmV0")], set_at=1)

    def remove(self, id_: str = "crm", tenant: str = "acme") -> None:
        self.driver.pipe("tenants", tenant_key(tenant, "endpoint", id_), None)

    def tenant(self, tenant: str = "acme", kind: Any = "tenant", *, disabled: bool = False) -> None:
        record = TenantRecord(tenant, kind, "", disabled, "{}")
        self.driver.pipe("tenants", tenant_key(tenant, kind, ""), TENANT.encode(record))

    def event(self, key: str = "k1", tenant: str = "acme", *, at: int = 0, **fields: Any) -> str:
        """An event; returns its id."""
        envelope = make_event(key, tenant, **fields)
        value = ENVELOPE.encode(envelope)
        self.driver.pipe("events", tenant.encode(), value, timestamp=at or None)
        return envelope.event_id

    def job(self, job_id: str = "job_1", tenant: str = "acme", **fields: Any) -> Job:
        job = make_job(job_id, tenant, **{"updated_at": self.driver.now, **fields})
        self.driver.pipe("jobs", job_id.encode(), JOB.encode(job))
        return job

    def command(self, kind: Any, endpoint: str = "crm", **fields: Any) -> DeliveryCommand:
        given: dict[str, Any] = {
            "delivery_id": None,
            "since": None,
            "until": None,
            "statuses": ("parked", "dead"),
            "sample": None,
            "submitted_by": "operator",
        }
        command = DeliveryCommand(
            fields.pop("command_id", None) or new_id("cmd"),
            "acme",
            endpoint,
            kind,
            at=self.driver.now,
            **(given | fields),
        )
        self.repeat(command)
        return command

    def repeat(self, command: DeliveryCommand) -> None:
        value = DELIVERY_COMMAND.encode(command)
        self.driver.pipe("deliveries.commands", b"acme", value)

    def rows(self) -> list[Delivery]:
        """All rows, in the order of their messages and endpoints."""
        found = self.driver.store("delivery", "deliveries").range(b"", b"\xff")
        rows = [DELIVERY.decode(value) for _, value in found]
        return sorted(rows, key=lambda row: (row.message_id, row.endpoint_id))

    def row(self) -> Delivery:
        (row,) = self.rows()
        return row

    def attempts(self) -> list[DeliveryAttempt]:
        found = self.driver.output("deliveries.attempts")
        return [DELIVERY_ATTEMPT.decode(record.value) for record in found]

    def state(self, id_: str = "crm", tenant: str = "acme") -> EndpointState:
        key = join(tenant, id_)
        newest = [r for r in self.driver.output("deliveries.endpoints") if r.key == key][-1]
        return ENDPOINT_STATE.decode(newest.value)
