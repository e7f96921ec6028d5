"""The call that yields a job's raw body."""

from __future__ import annotations

import asyncio
import sqlite3

from aiohttp import web

from streams.data_key import DataKey
from streams.errors import PermanentError, TransientError, VaultError
from streams.operator import queries
from streams.operator.api_jobs import known_job
from streams.operator.parts import PARTS, Parts
from streams.operator.refusal import Refusal
from streams.serde.records import TenantRecord

routes = web.RouteTableDef()

_HEADERS = {
    "Content-Disposition": 'attachment; filename="payload"',
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Bytes that a stranger sent: no browser shall take them for a page."""


@routes.get("/v1/jobs/{job_id}/payload")
async def get_payload(request: web.Request) -> web.Response:
    """The raw body of the event that gave the job, exactly as its vendor signed it."""
    parts, job_id = request.app[PARTS], request.match_info["job_id"]
    job = await known_job(parts, job_id)
    ref, event = job.payload_ref, job.event
    if ref is None or event is None:
        raise Refusal(404, "payload-none", f"job {job_id} has no payload: it was submitted "
                      "directly")  # fmt: skip
    key = await _key(parts, job.tenant_id, ref.key_id)
    try:
        chunks = await asyncio.wrap_future(parts.payloads.fetch(ref))
        body = await asyncio.to_thread(key.open, event.event_id, chunks, ref.size)
    except PermanentError as error:
        raise Refusal(410, "payload-gone", str(error)) from None
    except (TransientError, VaultError) as error:
        raise Refusal(503, "payload-unreadable", str(error)) from None
    return web.Response(body=body, content_type="application/octet-stream", headers=_HEADERS)


async def _key(parts: Parts, tenant_id: str, key_id: str) -> DataKey:
    place = (tenant_id, "data_key", key_id)

    def known(connection: sqlite3.Connection) -> TenantRecord | bool | None:
        if queries.setting(connection, tenant_id, "erasure", ""):
            return False
        return queries.setting(connection, *place)

    # A job may be shown a moment before the key that its partition of `tenants` holds.
    record = await parts.once(("tenants", place), known)
    if isinstance(record, TenantRecord):
        return DataKey(parts.vault, record)
    if record is False:
        raise Refusal(410, "payload-erased", f"tenant {tenant_id} was erased: the keys of its "
                      "bodies are destroyed")  # fmt: skip
    raise Refusal(503, "payload-unreadable", f"data key {key_id} of tenant {tenant_id} is not "
                  "known: see docs/vault.md")  # fmt: skip
