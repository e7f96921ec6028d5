"""Where owners of partitions listen: the addresses of the settings, and what their names stand for.

A name may stand for several owners, as that of a headless service does: each address that it has is
dialed. A host with addresses of both families is dialed by those of IPv4 alone, since it would be
met twice.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

from streams.errors import ConfigError
from streams.worker.http_names import Names

PATH = "/v1/link"
_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


@dataclass(frozen=True, slots=True)
class Address:
    """An address of the settings."""

    host: str
    port: int
    secure: bool

    @property
    def url(self) -> str:
        """What the address is dialed as."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.secure else 'ws'}://{host}:{self.port}{PATH}"


@dataclass(frozen=True, slots=True)
class Target:
    """One place to dial: an address, and one of the IP addresses that its name stands for."""

    address: Address
    ip: str

    @property
    def name(self) -> str:
        """What to call it in log lines."""
        place = f"{self.address.host}:{self.address.port}"
        return place if self.ip == self.address.host else f"{place} ({self.ip})"


class At(AbstractResolver):
    """Resolves every name to one IP address."""

    def __init__(self, ip: str) -> None:
        self._ip = ip

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The address, whatever is asked for."""
        found = socket.AF_INET if ip_address(self._ip).version == 4 else socket.AF_INET6
        numeric = socket.AI_NUMERICHOST
        return [
            ResolveResult(
                hostname=host, host=self._ip, port=port, family=found, proto=0, flags=numeric
            )
        ]

    async def close(self) -> None:
        """Nothing is held."""


def addresses(texts: Iterable[str]) -> tuple[Address, ...]:
    """The addresses of the setting `link`.

    Raises:
        ConfigError: there is none, or one is malformed.
    """
    found = tuple(dict.fromkeys(_address(text) for text in texts))
    if not found:
        raise ConfigError(
            "a worker needs the addresses of the owners of partitions: set TIDEGATE_LINK, such as "
            "ws://127.0.0.1:8090"
        )
    return found


def _address(text: str) -> Address:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port, secure = parts.hostname, parts.port, _SECURE[parts.scheme]
        if not host or port is None or parts.path not in ("", "/", PATH) or parts.username:
            raise ValueError("it has no host, no port or a path")
    except (ValueError, KeyError) as error:
        raise ConfigError(
            f"TIDEGATE_LINK: {text!r} is no address of an owner of partitions, such as "
            "wss://dispatcher.example:8090"
        ) from error
    return Address(host, port, secure)


async def targets(address: Address) -> list[Target]:
    """The places that an address stands for now.

    Raises:
        OSError: its name has no address, or no name server answers.
    """
    found = [each["host"] for each in await Names().resolve(address.host, address.port)]
    of_v4 = [ip for ip in found if ip_address(ip).version == 4]
    return [Target(address, ip) for ip in of_v4 or found]
