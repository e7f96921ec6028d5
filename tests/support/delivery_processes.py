"""The delivery stage as processes on a real broker, with an endpoint that a test listens at."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streams.process.wall_clock import wall_ms
from streams.serde import ids
from streams.serde.codec import DELIVERY, DELIVERY_ATTEMPT, ENDPOINT_STATE, ENVELOPE, TENANT
from streams.serde.delivery_records import Delivery, DeliveryAttempt, EndpointState
from streams.serde.keys import tenant_key
from streams.serde.records import PayloadRef, TenantRecord
from streams.tenants.endpoints import EndpointSettings, endpoint_key, endpoint_record
from streams.topology.load import load
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from support.conditions import eventually
from support.faulty_process import FaultyProcess
from support.hook_receiver import HookReceiver, serving
from support.operator_cluster import make_event
from support.stage_process import Cluster

BODY = b'{"order": 1.0}'
SECRET = b"whsec_" + base64.b64encode(b"s" * 32)
_VAULT_KEY = b"v" * 32


@dataclass
class DeliveryProcesses:
    """The topics of the stage, its processes, and the tenants whose events it delivers."""

    cluster: Cluster
    folder: Path
    receiver: HookReceiver
    tenants: Sequence[str] = ("acme",)
    processes: list[FaultyProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "vault.key").write_bytes(_VAULT_KEY)
        self._vault = local_vault(_VAULT_KEY)
        records = {tenant: new_key_record(self._vault, tenant) for tenant in self.tenants}
        self._data_keys = {t: DataKey(self._vault, record) for t, record in records.items()}
        self._bodies = 0
        for record in records.values():
            self._set(record)

    def start(
        self, instance: str = "0", wall_clock_off: float = 0, **environ: str
    ) -> FaultyProcess:
        """Start a process of the stage; return once it works."""
        given = self.cluster.environ(self.folder / f"data{instance}", instance) | {
            "TIDEGATE_TOPOLOGY": str(self.folder / "topology.yaml"),
            "TIDEGATE_VAULT_KEY_FILE": str(self.folder / "vault.key"),
            "TIDEGATE_EGRESS_ALLOW_HTTP": "true",
            "TIDEGATE_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
            "WALL_CLOCK_OFF": str(wall_clock_off),
        }
        log = self.folder / f"{len(self.processes)}.log"
        self.processes.append(FaultyProcess("delivery_stage", log, given | environ))
        self.processes[-1].wait_for('"running"')
        return self.processes[-1]

    def endpoint(self, tenant: str = "acme", **settings: Any) -> None:
        """Set the endpoint `crm` of a tenant, which leads to the receiver."""
        now = wall_ms()
        given: dict[str, Any] = {
            "url": self.receiver.url,
            "retry": (0.1, 0.1, 0.1),
            "timeout_seconds": 1,
            "created_at": now,
            "set_at": now,
        }
        key = endpoint_key(self._vault, tenant, "crm", SECRET)
        chosen = EndpointSettings(**(given | settings))
        self._set(endpoint_record(self._vault, tenant, "crm", chosen, (key,), {}, now))

    def event(self, name: str = "k1", tenant: str = "acme") -> str:
        """An event whose body stands sealed on `payloads`; returns its id."""
        event_id, key = f"evt_{name}", self._data_keys[tenant]
        self.cluster.send("payloads", [(event_id.encode(), key.seal(event_id, 0, BODY))])
        ref = PayloadRef(0, (self._bodies,), len(BODY), key.key_id)
        self._bodies += 1
        envelope = make_event(name, tenant, payload_ref=ref)
        self._send("events", tenant, tenant.encode(), ENVELOPE.encode(envelope))
        return event_id

    def rows(self) -> list[Delivery]:
        """The newest state of each row."""
        told = {m.key(): DELIVERY.decode(m.value()) for m in self.cluster.read("deliveries")}
        return list(told.values())

    def row_of(self, event_id: str, status: str, tenant: str = "acme") -> Delivery:
        """The row of an event for the endpoint, once it has the status."""
        wanted = ids.delivery_id(tenant, "crm", event_id)

        def found() -> Delivery | None:
            same = [row for row in self.rows() if row.delivery_id == wanted]
            return same[0] if same and same[0].status == status else None

        return eventually(found, what=f"{event_id} is {status}")

    def attempts(self) -> list[DeliveryAttempt]:
        return [
            DELIVERY_ATTEMPT.decode(m.value()) for m in self.cluster.read("deliveries.attempts")
        ]

    def endpoint_states(self) -> list[EndpointState]:
        return [ENDPOINT_STATE.decode(m.value()) for m in self.cluster.read("deliveries.endpoints")]

    def partition(self, tenant: str) -> int:
        return ids.partition_for(tenant, self.cluster.width("events"))

    def _set(self, record: TenantRecord) -> None:
        key = tenant_key(record.tenant_id, record.kind, record.id)
        self._send("tenants", record.tenant_id, key, TENANT.encode(record))

    def _send(self, topic: str, tenant: str, key: bytes, value: bytes) -> None:
        self.cluster.send(topic, [(key, value)], self.partition(tenant))


@contextmanager
def delivering(
    kafka: Any, folder: Path, partitions: int = 1, tenants: Sequence[str] = ("acme",)
) -> Iterator[DeliveryProcesses]:
    """The stage on new topics, without a process yet; the log of each is shown at a failure."""
    file = folder / "topology.yaml"
    file.write_text(f"partitions: {partitions}\n")
    cluster = Cluster(kafka, load(file))
    cluster.create()
    with serving(HookReceiver()) as receiver:
        made = DeliveryProcesses(cluster, folder, receiver, tenants)
        try:
            yield made
        finally:
            for process in made.processes:
                process.kill()
                print(process.lines)
