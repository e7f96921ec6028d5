"""Without Kafka, or an owner of jobs, a process lives and waits: nobody has a reason to end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support.conditions import eventually, exit_code
from support.dev_process import get

from streams.broker.ports import pick_free
from streams.dev.credentials import credentials
from streams.settings import Settings

APP = """
from streams import App
app = App("app")
@app.job("a")
async def a(ctx): ...
"""
STAGES = {"pipeline": (), "delivery": (), "worker": ("--app", "app:app")}


def status(port: int, path: str) -> int | None:
    with suppress(OSError):  # it does not listen yet
        return get(f"http://127.0.0.1:{port}{path}")[0]
    return None


@pytest.mark.parametrize("stage", STAGES)
def test_it_is_alive_and_not_ready_and_ends_when_it_is_told(stage: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    port = pick_free()
    env = {
        **os.environ,
        **credentials(Settings(data_dir=tmp_path)).environment(),
        "TIDEGATE_BOOTSTRAP": f"127.0.0.1:{pick_free()}",
        "TIDEGATE_LINK": f"ws://127.0.0.1:{pick_free()}",
        "TIDEGATE_LINK_LISTEN": "127.0.0.1:0",
        "TIDEGATE_DATA_DIR": str(tmp_path),
    }
    words = [sys.executable, "-m", "streams.cli", stage, "--probe-port", str(port), *STAGES[stage]]
    with subprocess.Popen(words, cwd=tmp_path, env=env, stderr=subprocess.STDOUT) as process:
        try:
            eventually(lambda: status(port, "/healthz") == 200, what="it says that it lives")
            assert status(port, "/readyz") == 503
            process.send_signal(signal.SIGTERM)
            assert exit_code(process) == 0
        finally:
            process.kill()
