"""Sends jobs to Celery and waits until Redis holds none: KIND COUNT RATE PATIENCE.

Prints one JSON object as `jobs_contenders.Told` reads it. Redis keeps a message that a worker has
and did not acknowledge in the hash `unacked`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from contenders.celery_app import app, effect, noop
from contenders.jobs_handler import BODY

_POLL_SECONDS = 0.02


def main() -> None:
    kind, count, rate, patience = sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:5])
    task = {"noop": noop, "effect": effect}[kind]
    answered: dict[str, float] = {}
    began, before = time.time(), time.process_time()
    for number in range(count):
        if rate:
            time.sleep(max(0.0, began + number / rate - time.time()))
        answered[task.delay(BODY).id] = time.time()
    spent = time.process_time() - before
    left = await_none(time.monotonic() + patience)
    told = {"began": began, "ended": time.time(), "answered": answered}
    print(json.dumps({**told, "unsettled": left, "spent": spent}))


def await_none(deadline: float) -> int:
    """How many messages are left when none is, or at the deadline."""
    with app.connection_for_read() as connection:
        client: Any = connection.default_channel.client
        while left := client.llen("celery") + client.hlen("unacked"):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
    return int(left)


if __name__ == "__main__":
    main()
