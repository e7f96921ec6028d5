"""Looks up the names of hosts for requests of a worker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from streams.process.daemon_thread import DaemonThread


class Names(AbstractResolver):
    """Each look-up has a thread of its own.

    The event loop has a few threads for all: some names whose servers hang, which may come with an
    input, would hold up the requests of all other runs.
    """

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a host.

        Raises:
            OSError: the name has none, or no name server answers.
        """
        try:
            look_up = asyncio.get_running_loop().run_in_executor(_OwnThreads(), _addresses, host)
        except RuntimeError as error:
            raise OSError(f"no thread for the look-up: {error}") from error
        return [_result(host, address, port) for address in await look_up]

    async def close(self) -> None:
        """Nothing is held."""


class _OwnThreads(Executor):
    """Gives each call a thread that does not keep the process from ending."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()  # it cannot be cancelled any more

        def body() -> None:
            try:
                found.set_result(function(*args, **kwargs))
            except BaseException as error:
                found.set_exception(error)

        DaemonThread("look-up", body).start()
        return found


def _addresses(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=0,
        flags=socket.AI_NUMERICHOST,
    )
