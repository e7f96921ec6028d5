"""Seconds from typing `tidegate dev` to the line that says it is ready.

    python benchmarks/bench_dev_ready.py [--json]

Once on an empty data directory (Kafka is formatted, topics are created) and once more on what
that run left behind. Ready means that every stage answers its readiness probe and that the
sample tenant's events are taken; the program asks `/readyz` itself before it believes the line.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from harness import Result, arguments, report

READY_SECONDS = 25.0
STOP_SECONDS = 30.0


def main() -> None:
    parser = arguments(__doc__)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        results = [
            Result("tidegate dev", state, round(seconds_until_ready(Path(folder)), 2), "s")
            for state in ("first start", "second start")
        ]
    report("dev_ready", results, as_json=chosen.json)


def seconds_until_ready(data_dir: Path) -> float:
    """Start it, wait for the line, stop it in order."""
    command = [
        sys.executable,
        str(Path(sys.executable).with_name("tidegate")),
        "dev",
        "--port",
        "0",
        "--data-dir",
        str(data_dir),
    ]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as dev:
        try:
            url = ready_url(dev, started + READY_SECONDS)
            took = time.perf_counter() - started
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                pass
        finally:
            dev.send_signal(signal.SIGINT)
            code = dev.wait(STOP_SECONDS)
    if code:
        raise SystemExit(f"tidegate dev ended with exit code {code}")
    return took


def ready_url(dev: subprocess.Popen[bytes], deadline: float) -> str:
    assert dev.stdout is not None
    told = b""
    while select.select([dev.stdout], [], [], max(0, deadline - time.perf_counter()))[0]:
        chunk: bytes = dev.stdout.read1(65_536)  # type: ignore[attr-defined]
        told += chunk
        for line in told.decode().splitlines(keepends=True):
            if line.startswith("tidegate ready ") and line.endswith("\n"):
                return line.split()[-1]
        if not chunk:
            raise SystemExit(f"tidegate dev ended before it was ready: {told.decode()}")
    raise SystemExit(f"tidegate dev is not ready after {READY_SECONDS:g} s")


if __name__ == "__main__":
    main()
