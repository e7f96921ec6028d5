"""What a team puts before Celery to take webhooks: verify, drop redeliveries, enqueue, answer.

    python -m contenders.celery_front PORT

The signature, the path and the answer are those of our ingress in bench_jobs. A redelivery is one
whose id Redis has (`SET NX`, for 7 days). A process that is killed between that and the enqueuing
loses the job: nothing else knows of it. Processes on one port share it (`SO_REUSEPORT`).
"""

from __future__ import annotations

import hmac
import json
import os
import sys
from typing import Any

import redis.asyncio as redis
from aiohttp import web

from contenders.celery_app import effect, noop

SECRET = b"signs the benchmark's bodies"
"""That of `webhook_requests`, which this environment cannot import."""
_TASKS: dict[str, Any] = {"plain.made": noop, "effect.made": effect}
_WINDOW_SECONDS = 7 * 86_400
_SEEN: web.AppKey[redis.Redis] = web.AppKey("seen", redis.Redis)


async def receive(request: web.Request) -> web.Response:
    """Take one webhook."""
    body = await request.read()
    signature = hmac.digest(SECRET, body, "sha256").hex()
    if not hmac.compare_digest(signature, request.headers.get("X-Signature", "")):
        return web.json_response({"status": "unsigned"}, status=401)
    event = json.loads(body)
    seen = f"seen:{request.match_info['tenant']}:{request.match_info['source']}:{event['id']}"
    if not await request.app[_SEEN].set(seen, 1, nx=True, ex=_WINDOW_SECONDS):
        return web.json_response({"status": "duplicate"})
    # The client of Celery has no asynchronous way; a thread for each call would cost more.
    job = _TASKS[event["type"]].delay(body.decode())
    return web.json_response({"status": "accepted", "job_id": job.id}, status=202)


def main() -> None:
    app = web.Application()
    app[_SEEN] = redis.Redis.from_url(os.environ["BENCH_SERVER"])
    app.router.add_post("/v1/hooks/{tenant}/{source}", receive)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), reuse_port=True, access_log=None)


if __name__ == "__main__":
    main()
