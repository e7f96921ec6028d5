"""A running operator and what stands around it, for tests on a real broker."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from aiohttp import web
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from pydantic import SecretStr

from ingress.receive.admission import DirectAdmission
from streams.api import operator_state as app_state
from streams.audit import commands
from streams.audit.commands import asked_of_delivery
from streams.audit.entries import of_asked
from streams.cli.api_client import CallFailed, call
from streams.kafka.admin import LeaderCachingAdmin, admin_client
from streams.kafka.offsets import latest, offset_in, request_offsets
from streams.operator.run import build
from streams.serde import ids, keys
from streams.serde.codec import (
    AUDIT_ENTRY,
    COMMAND,
    DEAD_LETTER,
    DELIVERY,
    DELIVERY_ATTEMPT,
    ENDPOINT_STATE,
    ENVELOPE,
    HELD,
    JOB,
    LEDGER_ENTRY,
    LIVE,
    PROGRESS,
    QUARANTINED,
    REJECTION,
    TENANT,
    Codec,
)
from streams.serde.delivery_records import (
    Delivery,
    DeliveryAttempt,
    DeliveryCommand,
    EndpointState,
)
from streams.serde.records import (
    DONE,
    REFUSED,
    AuditEntry,
    AuditOutcome,
    DeadLetter,
    Envelope,
    EventInfo,
    Held,
    Job,
    LedgerEntry,
    LiveOutput,
    PayloadRef,
    Progress,
    Quarantined,
    Rejection,
    TenantRecord,
)
from streams.settings import Settings
from streams.topology.cluster import topic_config
from streams.topology.load import load
from streams.topology.model import Topology
from support.conditions import PATIENCE_SECONDS, eventually
from support.documented import documented
from support.topics import create_topics

C = TypeVar("C")
TOKEN = "an-operator-s-token"
FOLLOWED = (
    "events",
    "jobs",
    "jobs.held",
    "jobs.backlog",
    "limits.grants",
    "jobs.progress",
    "jobs.types",
    "jobs.live",
    "ledger",
    "approvals",
    "schedules",
    "workflows",
    "dlq",
    "tenants",
    "quarantine",
    "rejections",
    "audit",
    "duplicates",
    "dispatcher.checkpoints.changelog",
    "deliveries",
    "deliveries.attempts",
    "deliveries.endpoints",
    "replays",
    "bulk",
)


def make_job(job_id: str = "job_a", tenant_id: str = "acme", **fields: Any) -> Job:
    """A job with a value in every field that matters, to be overridden by name."""
    given: dict[str, Any] = {
        "job_id": job_id,
        "tenant_id": tenant_id,
        "incarnation": 1,
        "type": "draft_reply",
        "pool": "default",
        "priority": "webhook",
        "status": "pending",
        "scope": f"{job_id}.1",
        "attempts": 0,
        "max_attempts": 5,
        "backoff": (10.0, 30.0),
        "timeout_seconds": 300.0,
        "epoch": 0,
        "run_id": None,
        "worker_id": None,
        "event": None,
        "payload_ref": None,
        "input": "{}",
        "request_hash": None,
        "event_time": 1_700_000_000_000,
        "scheduled_at": None,
        "next_retry_at": None,
        "last_error": None,
        "result": None,
        "cancel_requested": False,
        "workflow_id": None,
        "callback_url": None,
        "replay_of": None,
        "replay_note": None,
        "submitted_by": None,
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "created_at": 1_700_000_000_000,
        "updated_at": 1_700_000_000_500,
        "ready_at": 1_700_000_000_000,
    }
    return Job(**(given | fields))


def make_entry(job: Job, action: str, **fields: Any) -> LedgerEntry:
    """A done effect of a job."""
    given: dict[str, Any] = {
        "tenant_id": job.tenant_id,
        "scope": job.scope,
        "action": action,
        "status": "done",
        "job_id": job.job_id,
        "epoch": 1,
        "run_id": "run_1",
        "claim_id": "clm_1",
        "digest": b"\1" * 32,
        "idempotency_key": "idk_1",
        "key_lifetime_ms": 0,
        "claims": 1,
        "first_claimed_at": 1_700_000_001_000,
        "updated_at": 1_700_000_002_000,
        "result": '{"sent":true}',
        "error": None,
        "settled_by": None,
        "note": None,
    }
    return LedgerEntry(**(given | fields))


def make_event(dedup_key: str = "k1", tenant_id: str = "acme", **fields: Any) -> Envelope:
    """An event of source `shop` as it is on `events`; its id is `evt_` and its dedup key."""
    source = fields.get("source", "shop")
    given: dict[str, Any] = {
        "fingerprint": ids.fingerprint(tenant_id, source, dedup_key),
        "event_id": f"evt_{dedup_key}",
        "source": source,
        "tenant_id": tenant_id,
        "event_type": "order.paid",
        "occurred_at": None,
        "received_at": 1_700_000_000_000,
        "payload_hash": b"\1" * 32,
        "dedup_key": dedup_key,
        "subject": None,
        "content_type": "application/json",
        "delivery_id": None,
        "request_id": None,
        "payload_ref": PayloadRef(0, (0,), 12, "kek_1"),
        "attributes": {},
        "priority": "webhook",
        "routed": True,
    }
    return Envelope(**(given | fields))


def event_job(event: Envelope, **fields: Any) -> Job:
    """The job of an event."""
    about = EventInfo(
        event.event_id,
        event.source,
        event.event_type,
        event.subject,
        None,
        event.received_at,
        event.content_type,
        None,
        None,
        event.dedup_key,
        event.attributes,
    )
    job_id = ids.event_job_id(event.tenant_id, event.source, event.dedup_key)
    return make_job(job_id, event.tenant_id, event=about, payload_ref=event.payload_ref, **fields)


def make_letter(job: Job, **fields: Any) -> DeadLetter:
    """The dead letter of a job."""
    given: dict[str, Any] = {
        "id": job.job_id,
        "kind": "job",
        "tenant_id": job.tenant_id,
        "reason": "attempts_exhausted",
        "detail": "TimeoutError: slow",
        "stage": "dispatcher",
        "at": int(time.time() * 1000),
        "job_id": job.job_id,
        "type": job.type,
        "status": job.status,
        "attempts": job.attempts,
        "value": JOB.encode(job),
    }
    return DeadLetter(**(given | fields))


def make_quarantined(body: bytes, ref: PayloadRef, tenant_id: str = "acme") -> Quarantined:
    """A body of source `shop` that waits in the quarantine."""
    digest = hashlib.sha256(body).digest()
    return Quarantined(
        ids.quarantined_event_id(tenant_id, "shop", digest),
        tenant_id,
        "shop",
        "dedup_key",
        "mapping.dedup_key ('id') finds nothing usable in it",
        int(time.time() * 1000),
        digest,
        ref,
        "application/json",
        "r-1",
        {},
        f"00-{'a' * 32}-{'b' * 16}-01",
    )


@dataclass
class Cluster:
    """Topics under a prefix of their own, and a transactional writer in the dispatcher's place."""

    settings: Settings
    topology: Topology
    vault_key: bytes
    _writer: Producer = field(init=False)
    _admin: LeaderCachingAdmin = field(init=False)

    def __post_init__(self) -> None:
        name = f"{self.settings.topic_prefix}writer"
        self._writer = Producer(self.settings.client(**{"transactional.id": name}))
        self._writer.init_transactions(30)
        self._admin = admin_client(self.settings)

    def write(self, *records: Any, commit: bool = True) -> None:
        """Records in one transaction, each a value of a topic or (topic, partition, key, value)."""
        self._writer.begin_transaction()
        for record in records:
            topic, partition, key, value = self._addressed(record)
            self._writer.produce(self.settings.topic_prefix + topic, value, key, partition)
        self._writer.flush(30)
        if commit:
            self._writer.commit_transaction(30)
        else:
            self._writer.abort_transaction(30)

    def read(self, topic: str) -> list[Message]:
        """All that stands on a topic now, committed."""
        # Not to where a committed reader is told it ends: just after a commit that may be before
        # its records.
        ends = eventually(lambda: self._ends(topic), what=f"the ends of {topic}")
        consumer = Consumer(
            self.settings.client(
                **{
                    "group.id": f"{self.settings.topic_prefix}reader",
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                }
            )
        )
        name = self.settings.topic_prefix + topic
        places = [TopicPartition(name, p, 0) for p, end in ends.items() if end]
        consumer.assign(places)
        found: list[Message] = []

        def complete() -> bool:
            found.extend(m for m in consumer.consume(1000, 0.1) if m.error() is None)
            return all(tp.offset >= ends[tp.partition] for tp in consumer.position(places))

        eventually(complete, what=f"{topic} read to {ends}")
        consumer.close()
        return found

    def _ends(self, topic: str) -> dict[int, int]:
        """The end of each partition, with what is not committed; empty if not answered."""
        places = [(topic, p) for p in range(self.topology.partitions)]
        answers = request_offsets(self._admin, self.settings.topic_prefix, places, latest(), 10)
        try:
            return {p: offset_in(answer) for (_, p), answer in answers.items()}
        except KafkaException:
            return {}

    def home(self, tenant_id: str) -> int:
        return ids.partition_for(tenant_id, self.topology.partitions)

    def _addressed(self, record: Any) -> tuple[str, int, bytes, bytes | None]:
        match record:
            case Job():
                address = ("jobs", record.job_id.encode(), JOB.encode(record))
            case LedgerEntry():
                key = keys.ledger_key(record.tenant_id, record.scope, record.action)
                address = ("ledger", key, LEDGER_ENTRY.encode(record))
            case DeadLetter(kind="record"):
                value = DEAD_LETTER.encode(record)
                return "dlq", record.partition or 0, record.id.encode(), value
            case DeadLetter():
                address = ("dlq", record.id.encode(), DEAD_LETTER.encode(record))
            case Envelope():
                address = ("events", record.tenant_id.encode(), ENVELOPE.encode(record))
            case Held():
                key = keys.held_key(record.partition, record.pool, record.type, record.tenant_id)
                return "jobs.held", record.partition, key, HELD.encode(record)
            case Delivery():
                address = ("deliveries", record.delivery_id.encode(), DELIVERY.encode(record))
            case DeliveryAttempt():
                value = DELIVERY_ATTEMPT.encode(record)
                address = ("deliveries.attempts", record.delivery_id.encode(), value)
            case EndpointState():
                key = keys.join(record.tenant_id, record.endpoint_id)
                address = ("deliveries.endpoints", key, ENDPOINT_STATE.encode(record))
            case TenantRecord():
                key = keys.tenant_key(record.tenant_id, record.kind, record.id)
                address = ("tenants", key, TENANT.encode(record))
            case Progress():
                address = ("jobs.progress", record.job_id.encode(), PROGRESS.encode(record))
            case LiveOutput():
                address = ("jobs.live", record.job_id.encode(), LIVE.encode(record))
            case Quarantined():
                key = keys.quarantine_key(record.tenant_id, record.source, record.payload_hash)
                address = ("quarantine", key, QUARANTINED.encode(record))
            case AuditEntry():
                address = ("audit", record.tenant_id.encode(), AUDIT_ENTRY.encode(record))
            case Rejection():
                address = ("rejections", record.id.encode(), REJECTION.encode(record))
            case _:
                return record  # type: ignore[no-any-return]
        topic, key, value = address
        return topic, self.home(record.tenant_id or ""), key, value


@contextmanager
def obeying(
    cluster: Cluster,
    obey: Callable[[C, Message], list[Any]],
    codec: Codec[C] = COMMAND,  # type: ignore[assignment]
    topic: str = "jobs.commands",
) -> Iterator[None]:
    """Take a topic's commands in a stage's place, and write what `obey` makes of each."""
    stop = threading.Event()
    consumer = Consumer(cluster.settings.client(**{"group.id": "d", "enable.auto.commit": False}))
    name = cluster.settings.topic_prefix + topic
    consumer.assign([TopicPartition(name, p, 0) for p in range(cluster.topology.partitions)])

    def live() -> None:
        while not stop.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                command = codec.decode(message.value())
                made = obey(command, message)
                if made:
                    cluster.write(*answered(command, made))

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        consumer.close()


def answered(command: Any, made: list[Any]) -> list[Any]:
    """What a stage writes for a command: its records, and the entry that answers the command."""
    if any(isinstance(each, AuditEntry) for each in made):
        return made
    return [*made, entry_of(command, DONE)]


def entry_of(command: Any, outcome: AuditOutcome, **fields: Any) -> AuditEntry:
    """The entry that answers a command of either kind."""
    is_delivery = isinstance(command, DeliveryCommand)
    asked = asked_of_delivery(command) if is_delivery else commands.asked(command)
    assert asked is not None
    return of_asked(asked, outcome, int(time.time() * 1000), **fields)


def refusal(message: Message, reason: str, detail: str = "no") -> AuditEntry:
    """The answer to a command that a dispatcher turns down."""
    command = COMMAND.decode(message.value())
    return entry_of(command, REFUSED, reason=reason, detail=detail)


@dataclass
class RunningOperator:
    """The API of an operator that runs in a thread of this process."""

    url: str

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return call(self.url, TOKEN, "GET", path, query=query)

    def plain(
        self,
        path: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes | None = b"",
    ) -> tuple[int, str]:
        """Status and text of a request that is exactly as given: no token is added."""
        request = Request(self.url + path, body, headers or {}, method=method)
        try:
            with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def send(
        self, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None
    ) -> dict[str, Any]:
        return call(self.url, TOKEN, method, path, body=body or {}, idempotency_key=key)

    def shows(self, path: str, **expected: Any) -> dict[str, Any]:
        """The object at a path, once its members are as expected."""
        last: Any = None

        def matching() -> dict[str, Any] | None:
            nonlocal last
            try:
                last = found = self.get(path)
            except CallFailed as error:
                last = error
                return None
            return found if found.items() >= expected.items() else None

        try:
            return eventually(matching, what=f"{path} shows {expected}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows {last}") from None


@contextmanager
def running(
    settings: Settings, topology: Topology, *, ready: bool = True
) -> Iterator[RunningOperator]:
    """The operator, caught up unless `ready` is False; stopped in order at the end."""
    loop, bound = asyncio.new_event_loop(), threading.Event()
    stop, port, failures = asyncio.Event(), [0], []

    async def serve() -> None:
        app = build(settings, topology, DirectAdmission)
        app.middlewares.insert(0, documented)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port[0] = runner.addresses[0][1]
        bound.set()
        await stop.wait()
        await runner.cleanup()

    def live() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            failures.append(error)
            bound.set()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        assert bound.wait(PATIENCE_SECONDS), "the operator does not listen"
        assert not failures, failures
        operator = RunningOperator(f"http://127.0.0.1:{port[0]}")
        if ready:
            eventually(lambda: _answers(operator), what="the operator is ready")
        # On a busy machine the operator's own bound passes, and calls answer without their effect.
        with patch.object(app_state, "SHOWN_WITHIN_SECONDS", 30.0):
            yield operator
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


def make_cluster(
    bootstrap: str, client: dict[str, str], data_dir: Path, compaction_minutes: float = 60
) -> Cluster:
    """New topics under a new prefix, `tenants` compacted so soon."""
    topology = load()
    prefix = f"op-{uuid.uuid4().hex[:10]}."
    key = data_dir / "vault.key"
    key.write_bytes(uuid.uuid4().bytes * 2)
    settings = Settings(
        bootstrap=bootstrap,
        kafka={"log_level": "0", **client},
        topic_prefix=prefix,
        data_dir=data_dir,
        admin_token=SecretStr(TOKEN),
        vault_key_file=(key,),
    )
    wanted = [
        topology.topics[name]
        for name in (
            *FOLLOWED,
            "jobs.commands",
            "deliveries.commands",
            "payloads",
            "events.received",
        )
    ]
    lag = round(compaction_minutes * 60_000)
    wanted = [replace(t, compaction_lag_ms=lag) if t.name == "tenants" else t for t in wanted]
    topics = [
        NewTopic(prefix + t.name, t.partitions, 1, config=topic_config(t, replicated=False))
        for t in wanted
    ]
    create_topics(bootstrap, admin_client(settings), topics)
    return Cluster(settings, topology, key.read_bytes())


def _answers(operator: RunningOperator) -> bool:
    try:
        operator.get("/v1/jobs", limit="1")
    except CallFailed:
        return False
    return True
