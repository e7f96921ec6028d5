"""A process that serves connections may open as many as the system lets it."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from support.conditions import PATIENCE_SECONDS

SERVER = """
import asyncio, resource
from aiohttp import web
from streams.probe_routes import probe_routes, served

resource.setrlimit(resource.RLIMIT_NOFILE, (64, HARD))

async def main():
    app = web.Application()
    app.add_routes(probe_routes(lambda: True))
    async with served(app, "127.0.0.1", 0) as port:
        kept = []
        for number in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            kept.append(writer)
            writer.write(b"GET /healthz HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            assert b"200 OK" in await reader.readline(), number

asyncio.run(main())
"""


@pytest.mark.skipif(
    0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 512, reason="this system lets it open few"
)
def test_more_readers_than_a_login_shell_lets_a_process_have_are_served() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    made = SERVER.replace("HARD", str(hard))
    done = subprocess.run(
        [sys.executable, "-c", made],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
