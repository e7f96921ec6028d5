"""What sign-in needs in a running operator, made from its settings and its topology."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from streams.access.failures import Failures
from streams.access.grants import GroupGrants
from streams.access.oidc.answers import Calls, session_for_issuers
from streams.access.oidc.client import IssuerClient
from streams.access.oidc.issuer import Issuer, is_safe
from streams.access.people import Desk, People
from streams.access.permissions import all_roles
from streams.access.principal import Principal
from streams.access.sealed_cookies import SealedCookies
from streams.access.session_ends import SessionEnds
from streams.access.used_once import UsedOnce
from streams.delivery.egress.configured import egress_policy
from streams.delivery.egress.poster import trust
from streams.errors import ConfigError, IssuerUnavailable, SecretUnresolved
from streams.process.wall_clock import wall_ms
from streams.settings import Settings
from streams.tenants.secret_reference import resolve
from streams.topology.issuers import IssuerDeclaration
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault

CALLBACK = "/v1/session/callback"
"""Browsers come back below it, each issuer's to a path of its own (RFC 9700, section 4.4.2)."""


@dataclass(frozen=True, slots=True)
class SignInDesk:
    """Where people sign in; `origin` is the operator's own, as browsers see it.

    `begun` seals sign-ins under way and `links` those to the console; `used` are those of both that
    browsers have come back with.
    """

    people: People
    begun: SealedCookies
    links: SealedCookies
    used: UsedOnce
    failures: Failures
    origin: str
    now: Callable[[], int] = wall_ms


@asynccontextmanager
async def sign_in_desk(
    settings: Settings,
    topology: Topology,
    vault: Vault,
    ends: SessionEnds,
    standing: Callable[[str], Principal | None],
) -> AsyncIterator[SignInDesk]:
    """Give the desk of an operator; without issuers, nobody can sign in at it.

    Raises:
        ConfigError: there are issuers, and no usable TIDEGATE_PUBLIC_URL; or the file of
            authorities cannot be used.
    """
    origin = public_origin(settings, topology.issuers)
    policy = egress_policy(settings)
    async with session_for_issuers(trust(policy), policy.proxy) as session:
        calls, roles = Calls(session), all_roles(topology.roles)
        desks = {
            name: Desk(
                IssuerClient(_issuer(each, origin), calls),
                GroupGrants(roles, each.roles, each.tenants),
            )
            for name, each in topology.issuers.items()
        }
        people = People(desks, SealedCookies(vault, "session"), ends, wall_ms, standing)
        begun = SealedCookies(vault, "sign-in")
        links = SealedCookies(vault, "console link")
        yield SignInDesk(people, begun, links, UsedOnce(), Failures(time.monotonic), origin)


def public_origin(settings: Settings, issuers: Mapping[str, object]) -> str:
    """Return scheme, host and port of the operator, as browsers see them.

    Raises:
        ConfigError: it is needed and not set, or is no origin.
    """
    given = (settings.public_url or "").rstrip("/")
    if not given and not issuers:
        return ""
    if not given:
        raise ConfigError(
            "people cannot sign in without TIDEGATE_PUBLIC_URL: set it to where browsers find the "
            "operator, such as https://ops.example.com"
        )
    if not is_safe(given) or given != _origin(given):
        raise ConfigError(
            f"TIDEGATE_PUBLIC_URL: {given!r} is no origin: write https://ops.example.com, in lower "
            "case, without a path and without the usual port (http only for this machine)"
        )
    return given


def _origin(url: str) -> str:
    """Return the origin of a URL as browsers write it (RFC 6454, section 6.2)."""
    parts = urlsplit(url)
    is_usual = parts.port in (None, {"https": 443, "http": 80}.get(parts.scheme))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if is_usual else f":{parts.port}")


def _issuer(declared: IssuerDeclaration, origin: str) -> Issuer:
    return Issuer(
        name=declared.name,
        url=declared.issuer,
        client_id=declared.client_id,
        redirect_uri=f"{origin}{CALLBACK}/{declared.name}",
        secret=partial(_secret, declared),
        groups_claim=declared.groups_claim,
        scopes=declared.scopes,
    )


def _secret(declared: IssuerDeclaration) -> str | None:
    """Return the secret as it is now: its file may have changed.

    Raises:
        IssuerUnavailable: the reference leads to none.
    """
    if declared.client_secret is None:
        return None
    try:
        return resolve(declared.client_secret).decode()
    except (SecretUnresolved, UnicodeDecodeError) as error:
        why = f"the client's secret of issuer {declared.name} cannot be read: {error}"
        raise IssuerUnavailable(why) from None
