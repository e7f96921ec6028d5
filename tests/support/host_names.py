"""A table of host names for the dialer of a worker, in place of name servers."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.abc import ResolveResult

from streams.worker.link import addresses
from support.link_suite.said import come


class HostNames:
    """What names stand for, by name; nobody ever answers for one of `hanging`."""

    def __init__(self, **table: list[str]) -> None:
        self.table = table
        self.hanging: set[str] = set()
        self.looked_up = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(addresses, "Names", lambda: self)

    async def looks_again(self) -> None:
        """Return once names were looked up that did not begin before."""
        before = self.looked_up
        await come(lambda: self.looked_up > before + 1, "another look at the names")

    async def resolve(self, host: str, port: int) -> list[ResolveResult]:
        self.looked_up += 1
        if host in self.hanging:
            await asyncio.Event().wait()
        if not self.table.get(host):
            raise OSError(f"no address for {host}")
        return [
            ResolveResult(hostname=host, host=ip, port=port, family=2, proto=0, flags=0)
            for ip in self.table[host]
        ]
