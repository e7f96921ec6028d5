"""The least ingress there is, as a yardstick of the machine and the moment: it promises nothing.

Reads the body, computes one HMAC, parses the JSON, encrypts, and produces two records in a row,
each acknowledged by all in-sync replicas. No routes, no caps, no deadlines, no normalization, no
envelope worth the name, no metrics, no answer but 202.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import sys
from typing import Any

import orjson
import uvloop
from aiohttp import web
from confluent_kafka import Producer
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def serve(bootstrap: str, port: int, payloads: str, envelopes: str) -> None:
    """Answer POST until SIGTERM."""
    uvloop.install()
    application = _application(bootstrap, payloads, envelopes)
    web.run_app(application, host="127.0.0.1", port=port, access_log=None, print=None)


def _application(bootstrap: str, payloads: str, envelopes: str) -> web.Application:
    cipher = AESGCM(b"k" * 32)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "compression.type": "lz4",
            "log_level": 0,
        }
    )

    def send(topic: str, value: bytes, key: bytes) -> asyncio.Future[int]:
        sent: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def delivered(error: Any, message: Any) -> None:
            sent.set_exception(RuntimeError(str(error))) if error else sent.set_result(
                message.offset()
            )

        producer.produce(topic, value, key, on_delivery=delivered)
        return sent

    async def hook(request: web.Request) -> web.Response:
        body = await request.read()
        hmac.digest(b"secret", body, "sha256").hex()
        event, nonce = orjson.loads(body), os.urandom(12)
        tenant = request.match_info["tenant"].encode()
        offset = await send(payloads, nonce + cipher.encrypt(nonce, body, b"aad"), tenant)
        await send(envelopes, orjson.dumps([event["id"], offset]), tenant)
        return web.Response(status=202, body=b'{"status":"accepted"}')

    async def poll() -> None:
        while True:
            producer.poll(0)
            await asyncio.sleep(0.001)

    async def begin(application: web.Application) -> None:
        application["poller"] = asyncio.create_task(poll())

    application = web.Application()
    application.router.add_post("/v1/hooks/{tenant}/{source}", hook)
    application.router.add_get("/readyz", hook_ready)
    application.on_startup.append(begin)
    return application


async def hook_ready(request: web.Request) -> web.Response:
    """200 as soon as it listens."""
    return web.Response(text="ready\n")


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
