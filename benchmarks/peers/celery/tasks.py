"""The Celery application: its worker imports it, and so does the front."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, chord

from peers.journal import effect_blocking, note

LATE = os.environ["PEERS_CELERY_ACKS"] == "late"
VISIBILITY_SECONDS = int(os.environ["PEERS_CELERY_VISIBILITY"])
"""After so long Redis gives a task that nobody acknowledged to another worker."""

app = Celery("peers", broker=os.environ["PEERS_REDIS"], backend=os.environ["PEERS_REDIS"])
app.conf.update(
    task_acks_late=LATE,
    task_reject_on_worker_lost=LATE,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_throttle": 1,  # look for them each 10 s, not each 100 s
        "max_connections": 100,  # with 10, acknowledgements of more threads at once may fail
    },
)


def _plain(event_id: str, body: str) -> None:
    note("start", event_id)
    note("end", event_id)


def _effect(event_id: str, body: str) -> None:
    note("start", event_id)
    effect_blocking(event_id)
    note("end", event_id)


def _fan(event_id: str, body: str, jobs: int) -> None:
    note("start", event_id)
    chord(child.s(f"{event_id}/{number}") for number in range(jobs))(gathered.s(event_id))


def _child(event_id: str) -> int:
    _plain(event_id, "")
    return 1


def _gathered(results: list[int], event_id: str) -> None:
    note("end", event_id)


plain: Any = app.task(name="plain")(_plain)
effect: Any = app.task(name="effect")(_effect)
fan: Any = app.task(name="fan")(_fan)
child: Any = app.task(name="child", ignore_result=False)(_child)
gathered: Any = app.task(name="gathered")(_gathered)
