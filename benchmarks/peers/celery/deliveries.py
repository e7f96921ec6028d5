"""Outgoing webhooks as a team writes them with Celery: a task that signs, posts and tries again.

Its worker imports this module. `python -m peers.celery.deliveries` is the client: it enqueues a
task for each line `URL ID` of its input, and answers an empty line once all before it are enqueued.
"""

from __future__ import annotations

import base64
import hmac
import os
import sys
import time
from typing import Any

import urllib3
from celery import Celery

TIMEOUT_SECONDS = 15.0
"""That of our endpoints."""
VISIBILITY_SECONDS = 60
"""After so long Redis gives a task that nobody acknowledged to another worker. A task that waits
longer for its next attempt is given twice, so the waits below stay under it."""
LONGEST_WAIT_SECONDS = 30
ATTEMPTS = 8
SECRET = b"signs the benchmark's bodies"
BODY = "x" * 1_900
"""The size of the messages that we send in bench_delivery."""

app = Celery("deliveries", broker=os.environ["PEERS_REDIS"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_throttle": 1,  # look for them each 10 s, not each 100 s
        "max_connections": 2_000,  # with 10, acknowledgements of many greenlets at once would fail
    },
)
_pool = urllib3.PoolManager(num_pools=2_000, maxsize=1_000)


class RefusedError(Exception):
    """The receiver did not answer 2xx."""


def _deliver(url: str, webhook_id: str, body: str) -> None:
    """Post a message with the signature of Standard Webhooks."""
    at = str(int(time.time()))
    signature = hmac.digest(SECRET, f"{webhook_id}.{at}.{body}".encode(), "sha256")
    headers = {
        "Content-Type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": at,
        "webhook-signature": "v1," + base64.b64encode(signature).decode(),
    }
    sent = _pool.request(
        "POST", url, body=body, headers=headers, timeout=TIMEOUT_SECONDS, retries=False
    )
    if not 200 <= sent.status < 300:
        raise RefusedError(sent.status)


deliver: Any = app.task(
    name="deliver",
    autoretry_for=(urllib3.exceptions.HTTPError, RefusedError),
    retry_backoff=True,
    retry_backoff_max=LONGEST_WAIT_SECONDS,
    max_retries=ATTEMPTS - 1,
)(_deliver)


if __name__ == "__main__":
    for line in sys.stdin:
        if line == "\n":
            print(flush=True)
        else:
            deliver.delay(*line.split(), BODY)
