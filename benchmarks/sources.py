"""Tenants with a webhook source each, created over a running pipeline's API."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence

from aiohttp import ClientSession
from webhook_requests import SECRET, TENANTS

_AT_ONCE = 20


async def create_sources(
    url: str, admin_token: str, ingress: str = "", tenants: Sequence[str] = TENANTS
) -> None:
    """Return when the ingress takes what is signed for each source.

    `url` is that of the operator, and of the ingress too unless it is given.
    """
    headers = {"Authorization": f"Bearer {admin_token}"}
    async with ClientSession(url, headers=headers) as api:
        await asyncio.gather(*(_created(api, tenants[n::_AT_ONCE]) for n in range(_AT_ONCE)))
        async with asyncio.timeout(15):
            for tenant in tenants:
                while await _knock(api, ingress, tenant) != 400:
                    await asyncio.sleep(0.05)


async def _created(api: ClientSession, tenants: Sequence[str]) -> None:
    source = {"scheme": "hmac-sha256", "secret": SECRET.decode()}
    for tenant in tenants:
        for path, body in (("", {}), ("/sources/bench", source)):
            async with api.put(f"/v1/tenants/{tenant}{path}", json=body) as answer:
                answer.raise_for_status()


async def _knock(api: ClientSession, url: str, tenant: str) -> int:
    """The status for a body that is signed but is no JSON; nothing is written for it."""
    body = b"knock"
    headers = {
        "Content-Type": "application/json",
        "X-Signature": hmac.digest(SECRET, body, "sha256").hex(),
    }
    async with api.post(f"{url}/v1/hooks/{tenant}/bench", data=body, headers=headers) as answer:
        return answer.status
