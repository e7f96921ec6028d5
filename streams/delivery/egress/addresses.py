"""Which addresses belong to the public internet.

`ipaddress.is_global` is not used: it accepts multicast, site-local and translated addresses. The
IPv4 networks are those of the IANA special-purpose registry; of IPv6 only 2000::/3 is public,
without the networks in it that are special or lead back to IPv4.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network, unspecified
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by carriers; Alibaba's metadata is in it
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's host
            "169.254.0.0/16",  # link-local; most clouds' metadata
            "172.16.0.0/12",
            "192.0.0.0/24",  # IETF; Oracle's metadata is in it
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_UNICAST_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF: Teredo, benchmarks, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The upper half of an interface id whose lower half is an IPv4 address (RFC 5214)."""

_NEVER: tuple[Network, ...] = (
    *map(
        IPv4Network,
        (
            "0.0.0.0/32",
            "100.100.100.200/32",
            "168.63.129.16/32",
            "169.254.169.254/32",
            "169.254.170.2/32",
            "169.254.170.23/32",
            "192.0.0.192/32",
            "224.0.0.0/4",
            "255.255.255.255/32",
        ),
    ),
    *map(
        IPv6Network,
        (
            "::/128",
            "fd00:ec2::254/128",
            "fd00:ec2::23/128",
            "fd20:ce::254/128",
            "ff00::/8",
            "::ffff:0:0/96",
        ),
    ),
)
"""Metadata of clouds, many receivers at once, or no receiver: no setting allows these."""


def is_public(address: Address | str) -> bool:
    """Whether a request to this address leaves for the public internet.

    Raises:
        ValueError: the text is no address.
    """
    given = ip_address(address) if isinstance(address, str) else address
    if isinstance(given, IPv4Address):
        return not any(given in network for network in _SPECIAL_V4)
    if given.scope_id is not None or given not in _UNICAST_V6:
        return False
    interface = int(given) >> 32 & 0xFFFF_FFFF
    return interface not in _ISATAP and not any(given in network for network in _SPECIAL_V6)


def is_never_allowed(address: Address) -> bool:
    """Whether no list of allowed networks may open this address."""
    return any(address in network for network in _NEVER)
