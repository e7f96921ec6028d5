"""The ingress as a process: its memory under large bodies, and how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.ingress_world import Hooks, World, given
from support.webhooks import signed, source

from streams.broker.ports import pick_free
from streams.serde.codec import ENVELOPE
from streams.settings import Settings

pytestmark = pytest.mark.broker

MIB = 1024 * 1024


@pytest.fixture
def world(kafka: Any) -> World:
    return given(kafka)


PROGRAM = """
import sys, pathlib
from support.webhooks import topology
from ingress.http import server
from streams.settings import Settings
server.DRAIN_SECONDS = 3  # who watches readiness may be slow, and is to see it end
server.run(Settings.model_validate_json(sys.argv[1]), topology())
"""


@contextmanager
def process(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, str(Path(__file__).parents[2])])
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, settings.model_dump_json()],
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def peak_memory(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) * 1024


async def test_many_large_bodies_at_once_are_all_answered_and_take_little_memory(
    world: World, tmp_path: Path
) -> None:
    size, budget, many = 4 * MIB, 10 * MIB, 24
    world.put(source("acme", "large", "hmac-sha256", max_body_bytes=size))
    key = tmp_path / "vault.key"
    key.write_bytes(b"k" * 32)
    port = pick_free()
    update = {"port": port, "vault_key_file": (key,), "in_flight_bytes": budget}
    bodies = [b'{"id":"%d","pad":"' % n + b"x" * (size - 30) + b'"}' for n in range(many)]
    with process(world.settings.model_copy(update=update)) as child:
        async with aiohttp.ClientSession() as session:
            hooks = Hooks(f"http://127.0.0.1:{port}", session)
            await asyncio.to_thread(
                eventually, lambda: http_status(f"{hooks.url}/readyz") == 200, what="ready"
            )
            quiet = peak_memory(child.pid)
            answers = await asyncio.gather(
                *(hooks.post("acme/large", body, signed(body)) for body in bodies)
            )
            grown = peak_memory(child.pid) - quiet
    statuses = [status for status, _, _ in answers]
    assert set(statuses) <= {202, 429}
    assert 1 <= statuses.count(202) < many
    assert all("Retry-After" in headers for status, _, headers in answers if status == 429)
    events = [ENVELOPE.decode(m.value()) for m in world.scan("events.received")]
    assert len(events) == statuses.count(202)
    assert all(world.body(event) in bodies for event in events)
    assert grown < many * size / 2


def http_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def watch(url: str, seen: list[int]) -> None:
    """What new connections are told, over and over until none is taken."""
    while not seen or seen[-1]:
        seen.append(http_status(url))


def test_sigterm_first_ends_readiness_then_answers_what_is_under_way(
    world: World, tmp_path: Path
) -> None:
    key = tmp_path / "vault.key"
    key.write_bytes(b"k" * 32)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    update = {"port": port, "vault_key_file": (key,)}
    with process(world.settings.model_copy(update=update)) as child:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: http_status(f"{url}/readyz") == 200, what="ready")
        body = b'{"id":"half"}'
        head = (
            f"POST /v1/hooks/acme/shop HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            f"X-Signature: {signed(body)['X-Signature']}\r\n\r\n"
        )
        seen: list[int] = []
        watching = threading.Thread(target=watch, args=(f"{url}/readyz", seen))
        watching.start()
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as slow:
            slow.sendall(head.encode() + body[:5])
            child.send_signal(signal.SIGTERM)
            watching.join(15)
            assert [each for each in dict.fromkeys(seen) if each != 200] == [503, 0]
            slow.sendall(body[5:])
            answer = b"".join(iter(lambda: slow.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 202")
        assert b"connection: close" in answer.lower()
        assert exit_code(child) == 0
    assert len(world.scan("events.received")) == 1
