"""The guard against server-side request forgery: which URLs Tidegate calls for a customer.

A URL is parsed once, by the library that later sends the request, so that guard and client never
disagree on its host. `parse_target` looks at the URL alone. The addresses of a name are checked at
creation (`check_destination`), and again at each dial on the very address that is dialled
(`egress.connector`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from yarl import URL

from streams.delivery.egress.addresses import Address, is_public
from streams.delivery.egress.lookup import Resolve, system_lookup
from streams.delivery.egress.policy import EgressPolicy
from streams.errors import EgressDenied

__all__ = ["check_addresses", "check_destination", "is_public", "parse_target"]

LONGEST_URL = 2_048
MOST_ANSWERS = 50
"""A name with more addresses is denied: each address is checked at each dial."""

_LOOKUP_SECONDS = 5.0
_LOOPBACKS = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_AUTHORITY = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


async def check_destination(
    url: str, policy: EgressPolicy, resolve: Resolve = system_lookup
) -> None:
    """Check a URL and each address that its name has now.

    With a proxy no name is looked up, because the proxy does that.

    Raises:
        EgressDenied: Tidegate does not call this URL; its `reason` is `dns` if the name has no
            addresses now.
    """
    target = parse_target(url, policy)
    host = target.raw_host or ""
    if policy.proxy or literal(host):
        return
    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            answers = local_addresses(host, policy) or await resolve(host)
    except OSError as error:  # TimeoutError is one
        raise EgressDenied(
            "dns", f"the name {host} has no address now: check it, or try again later"
        ) from error
    check_addresses(host, target.port or 0, answers, policy)


def parse_target(url: str, policy: EgressPolicy) -> URL:
    """The URL as it is requested; checks its syntax, scheme, port and host, and looks nothing up.

    Raises:
        EgressDenied: Tidegate does not call this URL.
    """
    target = _parsed(url)
    if target.scheme != "https" and not policy.allow_http:
        raise EgressDenied("scheme", "http is not allowed: use an https URL")
    host, port = target.raw_host or "", target.port or 0
    if port in policy.denied_ports or not port:
        raise EgressDenied("port", f"port {port} is not allowed: use 443 or another port for HTTP")
    address = literal(host)
    if address:
        check_addresses(host, port, [host], policy)
    else:
        _check_name(host.removesuffix("."), port, policy)
    return target


def literal(host: str) -> Address | None:
    """The address that a URL's host is, or None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def local_addresses(host: str, policy: EgressPolicy) -> list[str]:
    """The loopback addresses of a `localhost` name that the policy permits (RFC 6761)."""
    if not _is_localhost(host.removesuffix(".")):
        return []
    return [str(address) for address in _LOOPBACKS if policy.permits(address)]


def check_addresses(host: str, port: int, answers: Sequence[str], policy: EgressPolicy) -> None:
    """Check every address of a host.

    Raises:
        EgressDenied: at least one of them is not allowed, or there are more than `MOST_ANSWERS`.
    """
    if len(answers) > MOST_ANSWERS:
        raise EgressDenied("address", f"{host} has over {MOST_ANSWERS} addresses: give it fewer")
    for answer in answers:
        address = literal(answer)
        if address is None or not policy.permits(address):
            raise EgressDenied("address", _not_public(host, answer))
        if policy.is_own(str(address), port):
            raise EgressDenied("own_host", f"{host}:{port} is Tidegate itself: use another host")


def _parsed(url: str) -> URL:
    if len(url) > LONGEST_URL:
        raise EgressDenied("syntax", f"the URL is longer than {LONGEST_URL} characters")
    if _FORBIDDEN.search(url):
        raise EgressDenied("syntax", "the URL has a space, a backslash or a control character")
    authority = _AUTHORITY.match(url)
    if authority is None:
        raise EgressDenied("scheme", "the URL does not begin with https://")
    if "@" in authority[1]:
        raise EgressDenied("user_info", "the URL has a user or password: use a header instead")
    if "%" in authority[1]:
        raise EgressDenied("syntax", "the URL's host has a % (an escape or a scope id)")
    try:
        target = URL(url)
        _ = target.port
    except ValueError as error:
        raise EgressDenied("syntax", "the URL's host or port is not valid: correct it") from error
    return target


def _check_name(name: str, port: int, policy: EgressPolicy) -> None:
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise EgressDenied("syntax", "the URL's host is not a valid name: correct it")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise EgressDenied(
            "syntax", f"the host {name} is a number: write an address with four numbers, or a name"
        )
    if policy.is_own(name, port):
        raise EgressDenied("own_host", f"{name}:{port} is Tidegate itself: use another host")
    if _is_localhost(name) and not local_addresses(name, policy):
        raise EgressDenied("address", _not_public(name, "this machine"))


def _is_localhost(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _not_public(host: str, answer: str) -> str:
    leads = "" if host == answer else f" leads to {answer}, which"
    return f"{host}{leads} is not a public address: use a public one, or allow its network"
