"""What each step of one accepted webhook of 1 KB costs, alone and without Kafka or HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness import Result
from webhook_requests import SECRET, made

from ingress.schemes import SignedRequest, verifier
from ingress.schemes.normalize import Normalizer
from streams.serde import ids
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope, PayloadRef
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault

ROUNDS = 5_000


def steps() -> list[Result]:
    """One row a step, in the order of a request."""
    head, _, body = made(1)[0].partition(b"\r\n\r\n")
    lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
    headers = {name: value for name, _, value in lines}
    check, normalizer = verifier("hmac-sha256", {}), Normalizer("hmac-sha256", {})
    vault, event = local_vault(b"b" * 32), normalizer.normalize(headers, body)
    data_key = DataKey(vault, new_key_record(vault, "tenant0"))
    key = ("tenant0", "bench", event.dedup_key)
    envelope = Envelope(
        ids.fingerprint(*key),
        ids.new_id("evt"),
        "bench",
        "tenant0",
        event.event_type,
        event.occurred_at,
        1,
        event.payload_hash,
        event.dedup_key,
        event.subject,
        "application/json",
        None,
        None,
        PayloadRef(0, (7,), len(body), data_key.key_id),
        event.attributes,
        "webhook",
    )
    timed: dict[str, Callable[[], object]] = {
        "signature": lambda: check([SECRET], SignedRequest(headers, body, "", "POST", 0.0)),
        "normalization": lambda: normalizer.normalize(headers, body),
        "ids": lambda: (ids.new_id("evt"), ids.fingerprint(*key), ids.event_job_id(*key)),
        "sealing": lambda: data_key.seal("evt_1", 0, body),
        "envelope": lambda: ENVELOPE.encode(envelope),
    }
    return [Result("step", name, microseconds(call), "us") for name, call in timed.items()]


def microseconds(call: Callable[[], object]) -> float:
    """The fastest of five rounds: what others did to the machine meanwhile is left out."""
    fastest = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(ROUNDS):
            call()
        fastest = min(fastest, time.perf_counter() - started)
    return round(fastest / ROUNDS * 1e6, 1)
