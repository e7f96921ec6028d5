"""What the operator lets outgoing requests reach."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from streams.delivery.egress.addresses import Address, Network, is_never_allowed, is_public

_BAD_PORTS = frozenset(
    {
        1,
        7,
        9,
        11,
        13,
        15,
        17,
        19,
        20,
        21,
        22,
        23,
        25,
        37,
        42,
        43,
        53,
        69,
        77,
        79,
        87,
        95,
        101,
        102,
        103,
        104,
        109,
        110,
        111,
        113,
        115,
        117,
        119,
        123,
        135,
        137,
        139,
        143,
        161,
        179,
        389,
        427,
        465,
        512,
        513,
        514,
        515,
        526,
        530,
        531,
        532,
        540,
        548,
        554,
        556,
        563,
        587,
        601,
        636,
        989,
        990,
        993,
        995,
        1719,
        1720,
        1723,
        2049,
        3659,
        4045,
        4190,
        5060,
        5061,
        6000,
        6566,
        6665,
        6666,
        6667,
        6668,
        6669,
        6679,
        6697,
        10080,
    }
)
"""Ports that browsers refuse (Fetch Standard, "bad port"): their services read text lines."""

_INSIDE_PORTS = frozenset(
    {
        445,
        1433,
        1521,
        2181,
        2375,
        2376,
        2379,
        2380,
        3306,
        3389,
        4369,
        5432,
        5672,
        5984,
        6379,
        6380,
        8086,
        8500,
        9042,
        9092,
        9093,
        9200,
        9300,
        10250,
        10255,
        11211,
        27017,
        27018,
    }
)
"""Ports of databases, brokers and cluster agents."""


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Where requests may go, and how.

    Without settings only https to public addresses is allowed. `allowed_networks` adds networks
    that are not public, such as 127.0.0.0/8 in development; metadata services, multicast and
    IPv4-mapped addresses stay denied. `own_hosts` are Tidegate's own names and addresses in lower
    case, each for all ports or written `host:port`.

    `proxy` is the URL of a forward proxy. The proxy resolves names and dials; its address is the
    operator's choice and is not checked. Tidegate still checks scheme, port, syntax and literal
    addresses of each target, but the proxy must refuse names that lead inside.

    `ca_file` has further certificate authorities in PEM form beside those of the system.
    """

    allowed_networks: tuple[Network, ...] = ()
    allow_http: bool = False
    denied_ports: frozenset[int] = _BAD_PORTS | _INSIDE_PORTS
    own_hosts: frozenset[str] = frozenset()
    proxy: str | None = None
    connections_per_host: int = 8
    ca_file: Path | None = None

    def permits(self, address: Address) -> bool:
        """Whether a connection to the address is allowed."""
        if is_never_allowed(address):
            return False
        allowed = any(address in network for network in self.allowed_networks)
        return allowed or is_public(address)

    def is_own(self, host: str, port: int) -> bool:
        """Whether host (name or address) and port are Tidegate itself."""
        written = f"[{host}]" if ":" in host else host
        return bool(self.own_hosts & {host, f"{written}:{port}"})
