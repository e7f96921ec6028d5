"""The Celery application of bench_jobs; runs in an environment of its own."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from contenders.jobs_handler import note, send_email

app = Celery("bench", broker=os.environ["BENCH_SERVER"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


def _noop(task: Any, body: str) -> None:
    """Note the moment of its first line, and nothing else."""
    note(task.request.id)


def _effect(task: Any, body: str) -> None:
    """Note the moment of its first line, then one bare call."""
    note(task.request.id)
    send_email(to="customer@example.com")


noop: Any = app.task(bind=True, name="noop")(_noop)
effect: Any = app.task(bind=True, name="effect")(_effect)
