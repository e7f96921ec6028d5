"""The dispatcher's side of a real worker process, played by a test on a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from streams.serde.codec import COMMAND, PROGRESS, REPLY, TENANT
from streams.serde.ids import new_id
from streams.serde.keys import tenant_key
from streams.serde.lease_mac import seal_lease
from streams.serde.records import (
    Claim,
    Command,
    Ended,
    EventInfo,
    Heartbeat,
    Lease,
    PayloadRef,
    Reply,
    TenantRecord,
)
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from support.conditions import PATIENCE_SECONDS, eventually
from support.worker_bench import CLUSTER_KEY, lease_to

B = TypeVar("B")
VAULT_KEY = b"v" * 32
PARTITIONS = 2


@dataclass
class Dispatcher:
    """Reads every command, writes leases and replies."""

    client: dict[str, Any]
    prefix: str
    commands: list[tuple[int, Command]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(self.client)
        vault = local_vault(VAULT_KEY)
        self.key = new_key_record(vault, "acme")
        self.data_key = DataKey(vault, self.key)
        self.consumer = self.reader("jobs.commands")

    def reader(self, topic: str) -> Consumer:
        consumer = Consumer({**self.client, "group.id": uuid.uuid4().hex})
        name = self.prefix + topic
        consumer.assign([TopicPartition(name, p, 0) for p in range(PARTITIONS)])
        return consumer

    def write(self, topic: str, partition: int, key: bytes, value: bytes) -> int:
        found: list[Message] = []
        self.producer.produce(
            self.prefix + topic,
            value,
            key,
            partition,
            on_delivery=lambda error, message: found.append(message),
        )
        self.producer.flush(10)
        offset = found[0].offset()
        assert offset is not None
        return offset

    def look(self) -> None:
        while (message := self.consumer.poll(0.05)) is not None:
            if message.error() is None:
                partition = message.partition()
                assert partition is not None
                self.commands.append((partition, COMMAND.decode(message.value())))

    def find(
        self,
        kind: type[B],
        when: Callable[[Command], bool],
        timeout: float = PATIENCE_SECONDS,
    ) -> B:
        """The newest command of a kind that fulfils a condition, once there is one."""

        def found() -> list[B]:
            self.look()
            return [c.body for _, c in self.commands if isinstance(c.body, kind) and when(c)]

        return eventually(found, timeout, what=f"a {kind.__name__}")[-1]

    def heartbeat(
        self, partition: int, worker: str = "default-w1/", since: int = 0, *, free: int = 1
    ) -> Command:
        """The newest heartbeat with that many free slots or more, to a partition, by an instance.

        It was sent after `since`, in ms since the epoch.
        """

        def found() -> list[Command]:
            self.look()
            return [
                c
                for p, c in self.commands
                if p == partition
                and c.at > since
                and isinstance(c.body, Heartbeat)
                and c.body.worker_id.startswith(worker)
                and c.body.free >= free
            ]

        return eventually(found, what=f"a heartbeat of {worker} to {partition}")[-1]

    def lease(
        self, type: str, since: int = 0, pool: str = "default", free: int = 1, **changes: Any
    ) -> Lease:
        """Lease a job in answer to a heartbeat that was sent after `since`."""
        home = changes.get("home_partition", 0)
        answered = self.heartbeat(home, f"{pool}-w1/", since=since, free=free)
        body = answered.body
        assert isinstance(body, Heartbeat)
        made = replace(
            lease_to(home, body.worker_id),
            job_id=new_id("job"),
            run_id=new_id("run"),
            type=type,
            max_attempts=5,
            timeout_seconds=30,
            term_seconds=12,
            heartbeat_id=answered.command_id,
        )
        lease = replace(made, **changes)
        value = seal_lease(lease, CLUSTER_KEY)
        self.write(f"jobs.work.{pool}", body.work_partition, b"acme", value)
        return lease

    def put_tenant(self, kind: str, id_: str, record: TenantRecord) -> None:
        self.write("tenants", 1, tenant_key("acme", kind, id_), TENANT.encode(record))

    def payload(self, body: bytes, chunk_bytes: int = 6) -> dict[str, Any]:
        """Store a body in chunks, between others; returns what a lease says of it."""
        event_id, offsets = new_id("evt"), []
        self.put_tenant("data_key", self.key.id, self.key)
        chunks = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]
        for index, chunk in enumerate(chunks):
            sealed = self.data_key.seal(event_id, index, chunk)
            self.write("payloads", 1, b"acme", b"another's")
            offsets.append(self.write("payloads", 1, b"acme", sealed))
        event = EventInfo(
            event_id, "zendesk", "ticket.created", None, None, 1, "text/plain", None, None, "k", {}
        )
        ref = PayloadRef(1, tuple(offsets), len(body), self.key.id)
        return {"event": event, "payload_ref": ref}

    def grant(self, lease: Lease) -> Claim:
        claim = self.find(Claim, lambda c: c.job_id == lease.job_id)
        reply = Reply(
            lease.worker_id, lease.job_id, 1, claim.claim_id, "granted", idempotency_key="idk_1"
        )
        self.write("jobs.replies", claim.reply_partition, b"", REPLY.encode(reply))
        return claim

    def ended(self, lease: Lease) -> Ended:
        return self.find(Ended, lambda c: c.job_id == lease.job_id)

    def begun(self, lease: Lease) -> None:
        """Wait until the handler has published its first progress."""
        consumer = self.reader("jobs.progress")

        def found() -> bool:
            message = consumer.poll(0.1)
            value = message.value() if message is not None and not message.error() else None
            return value is not None and PROGRESS.decode(value).job_id == lease.job_id

        eventually(found, what=f"progress of {lease.type}")
        consumer.close()
