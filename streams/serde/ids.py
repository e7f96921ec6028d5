"""Identifiers, all derived in one place.

`job_id` is deterministic, so that an ingress without state answers every redelivery with the same
id. Every hash is over length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Collection
from functools import lru_cache
from uuid import UUID

from confluent_kafka import murmur2
from uuid_utils import uuid7

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def fingerprint(tenant_id: str, source: str, dedup_key: str) -> bytes:
    """16 bytes that are equal exactly for deliveries of one event (BLAKE2b-128)."""
    return _hash(tenant_id, source, dedup_key)


def event_job_id(tenant_id: str, source: str, dedup_key: str) -> str:
    """The job of an event."""
    return "job_" + _encode(_hash("event", tenant_id, source, dedup_key))


def quarantined_event_id(tenant_id: str, source: str, payload_hash: bytes) -> str:
    """The id of the event that a quarantined body may become: a UUIDv8 (RFC 9562).

    Equal bodies get equal ids, so every ingress answers every repetition with the same id, whatever
    it remembers.
    """
    return f"evt_{_uuid8(_hash('quarantine', tenant_id, source, payload_hash.hex()))}"


def tested_event_id(command_id: str) -> str:
    """The one event that a command to test a source makes: a UUIDv8 (RFC 9562)."""
    return f"evt_{_uuid8(_hash('test', command_id))}"


def submitted_job_id(tenant_id: str, key: str | None) -> str:
    """The job of a direct submission: by its idempotency or dedup key, otherwise random."""
    if key is None:
        return "job_" + _encode(secrets.token_bytes(16))
    return "job_" + _encode(_hash("submit", tenant_id, "", key))


def replay_job_id(tenant_id: str, replay_of: str, key: str | None) -> str:
    """The job of an operator's replay: by its idempotency key, otherwise random."""
    if key is None:
        return "job_" + _encode(secrets.token_bytes(16))
    return "job_" + _encode(_hash("replay", tenant_id, replay_of, key))


def scheduled_job_id(tenant_id: str, schedule_id: str, generation: int, occurrence: str) -> str:
    """The one job of a schedule's time, which its nominal local time and fold name."""
    return "job_" + _encode(_hash("schedule", tenant_id, schedule_id, str(generation), occurrence))


def event_replay_id(tenant_id: str | None, key: str | None) -> str:
    """A replay of events: by its idempotency key, otherwise new."""
    if key is None:
        return new_id("rpl")
    return "rpl_" + _encode(_hash("event-replay", tenant_id or "", key))


def replayed_event_job_id(tenant_id: str, replay_id: str, event_id: str) -> str:
    """The one job that a replay gives an event."""
    return "job_" + _encode(_hash("replayed-event", tenant_id, replay_id, event_id))


def recovery_command_id(tenant_id: str, endpoint_id: str, key: str | None) -> str:
    """The command that recovers an endpoint: by its idempotency key, otherwise random."""
    if key is None:
        return new_id("cmd")
    return "cmd_" + _encode(_hash("recover", tenant_id, endpoint_id, key))


def bulk_id(tenants: Collection[str] | None, key: str | None) -> str:
    """A bulk act: by the tenants of who asks (None: all) and the idempotency key, or new."""
    if key is None:
        return new_id("blk")
    return "blk_" + _encode(_hash("bulk", key, *sorted(tenants or ())))


def cause_id(kind: str, origin: str, error_class: str, message: str, code: str | None) -> str:
    """The dead letters that have these in common."""
    version = () if code is None else (code,)
    return "cau_" + _encode(_hash("cause", kind, origin, error_class, message, *version)[:10])


def keyed_command_id(principal: str, path: str, body: bytes, key: str) -> str:
    """The one command of all calls of a principal with the same path, body and idempotency key."""
    told = hashlib.sha256(body).hexdigest()
    return "cmd_" + _encode(_hash("call", principal, path, told, key))


def bulk_command_id(bulk_act: str, item: str) -> str:
    """The one command that a bulk act sends about an item."""
    return "cmd_" + _encode(_hash("bulk-item", bulk_act, item))


def child_job_id(tenant_id: str, scope: str, call: str) -> str:
    """The job that the call of a run asks for; the runs of all jobs in a scope ask for the same."""
    return "job_" + _encode(_hash("child", tenant_id, scope, call))


def scope_of(job_id: str, incarnation: int, born_ms: int) -> str:
    """The idempotency scope of a job's own effects; `born_ms` is its event time, milliseconds.

    A purged job's id begins again at incarnation 1, so the time of birth distinguishes one life
    from the next. The same record read again gives the same scope.
    """
    return f"{job_id}.{incarnation}.{_base36(max(0, born_ms))}"


def scope_owner(scope: str) -> str:
    """The job to which this scope belongs; any other job that works in it shares it."""
    return scope.partition(".")[0]


def idempotency_key(tenant_id: str, scope: str, action: str) -> str:
    """The `Idempotency-Key` that a tool gets: equal for every repetition of one effect.

    Jobs that share a scope (`effect_scopes`) get the same one.
    """
    return "idk_" + _encode(_hash("effect", tenant_id, scope, action))


def approval_id(tenant_id: str, scope: str, key: str) -> str:
    """The approval that the jobs of a scope ask for under a key."""
    return "apr_" + _encode(_hash("approval", tenant_id, scope, key))


def artifact_id(job_id: str, run_id: str, name: str) -> str:
    """The id of what one run saves under a name: the same call again overwrites its own alone."""
    return f"art_{_encode(_hash(job_id, run_id, name))}"


def delivery_id(tenant_id: str, endpoint_id: str, message_id: str) -> str:
    """The one delivery of a message to an endpoint."""
    return "dlv_" + _encode(_hash("delivery", tenant_id, endpoint_id, message_id))


def new_id(prefix: str) -> str:
    """A new id, ordered by time: prefix, underscore, UUIDv7 (RFC 9562)."""
    return f"{prefix}_{uuid7()}"


def new_traceparent() -> str:
    """A sampled W3C trace context root (W3C Trace Context, section 3.2)."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


@lru_cache(maxsize=65_536)
def partition_for(tenant_id: str, partitions: int) -> int:
    """The partition of a tenant on every co-partitioned topic (Kafka's default murmur2)."""
    return int(murmur2(tenant_id.encode(), partitions))


def owner_of(limit: str, key: str, partitions: int) -> int:
    """The partition of the dispatcher that owns the permits of one value of a shared limit."""
    raw = limit.encode()
    return int(murmur2(len(raw).to_bytes(4, "big") + raw + key.encode(), partitions))


def split_worker(worker_id: str) -> tuple[str, str]:
    """A worker's instance and its boot; boots are UUIDv7, so the worker's clock orders them."""
    instance, _, boot = worker_id.rpartition("/")
    return instance, boot


def _hash(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(4, "big"))
        digest.update(raw)
    return digest.digest()


def _uuid8(digest: bytes) -> UUID:
    raw = bytearray(digest)
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return UUID(bytes=bytes(raw))


def _base36(number: int) -> str:
    text = ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text


def _encode(raw: bytes) -> str:
    return base64.b32hexencode(raw).decode().rstrip("=").lower()
