"""Which processes are not ready yet: asks each one's /readyz."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import ClientError, ClientSession, ClientTimeout

_TIMEOUT = ClientTimeout(total=2.0)


async def unready(urls: Mapping[str, str]) -> list[str]:
    """Names whose URL does not answer 200 right now, in the order given."""
    async with ClientSession(timeout=_TIMEOUT) as session:
        answers = await asyncio.gather(*(_answers(session, url) for url in urls.values()))
    return [name for name, ready in zip(urls, answers, strict=True) if not ready]


async def _answers(session: ClientSession, url: str) -> bool:
    try:
        async with session.get(url, allow_redirects=False) as response:
            return response.status == 200
    except (ClientError, TimeoutError, OSError):
        return False
