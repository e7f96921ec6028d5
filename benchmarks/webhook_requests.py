"""Whole HTTP requests with valid signatures, rendered before a benchmark's clock runs."""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from pathlib import Path

import orjson

SECRET = b"signs the benchmark's bodies"


def tenants_named(count: int) -> tuple[str, ...]:
    """So many tenants, the same first ones always."""
    return tuple(f"tenant{number}" for number in range(count))


TENANTS = tenants_named(20)
SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples" / "github"
"""Real bodies that GitHub sends, where they are at hand."""


def made(
    count: int, size: int = 1024, tenants: Sequence[str] = TENANTS, event_type: str = "plain.made"
) -> list[bytes]:
    """Bodies of `size` bytes, each with an event id of its own; scheme `hmac-sha256`."""
    run = os.urandom(4).hex()
    return [_made(number, run, size, tenants, event_type) for number in range(count)]


def github(count: int) -> list[bytes]:
    """Real bodies of GitHub over and over, each made new by a field of its own; [] without them."""
    bodies = ((path.parent.name, path.read_bytes()) for path in sorted(SAMPLES.glob("*/*.json")))
    found = [(event, body) for event, body in bodies if body]
    run = os.urandom(4).hex()
    return [
        _github(number, f"{run}-{number}", *found[number % len(found)])
        for number in range(count if found else 0)
    ]


def _made(number: int, run: str, size: int, tenants: Sequence[str], event_type: str) -> bytes:
    event = {"type": event_type, "id": f"evt-{run}-{number}", "data": {"id": number}}
    padding = size - len(orjson.dumps({**event, "text": ""}))
    body = orjson.dumps({**event, "text": "x" * padding})
    signature = hmac.digest(SECRET, body, "sha256").hex()
    return request(tenants[number % len(tenants)], "bench", {"X-Signature": signature}, body)


def _github(number: int, mark: str, event: str, body: bytes) -> bytes:
    fresh = orjson.dumps({**orjson.loads(body), "made_new_by": mark})
    signature = "sha256=" + hmac.digest(SECRET, fresh, "sha256").hex()
    headers = {"X-Hub-Signature-256": signature, "X-GitHub-Event": event}
    return request(TENANTS[number % len(TENANTS)], "github", headers, fresh)


def request(tenant: str, source: str, headers: dict[str, str], body: bytes) -> bytes:
    """A whole HTTP request."""
    lines = [
        f"POST /v1/hooks/{tenant}/{source} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
