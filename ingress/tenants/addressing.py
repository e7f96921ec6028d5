"""Addresses a request: its route names the tenant, its path names the source.

The route is the URL's path, its subdomain, or a token's claim, as this ingress is configured.
Nothing else in a request, neither header nor body, can name a tenant (G3). The route only selects
the source; in every mode the signature must hold under that source's secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet

from ingress.schemes.key_sets import PUBLIC_KEY_ALGORITHMS, key_set
from streams.errors import ConfigError, SignatureError
from streams.settings import Settings

Address = tuple[str, str]
"""Tenant and source. The tenant is "" if the route names none; no source has that tenant."""
Addressing = Callable[[web.BaseRequest], Address | None]
"""The address of a request; None if its path is not a webhook's."""

DEFAULT_CLAIM = "tenant_id"
_CLOCK_SKEW_SECONDS = 60
_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*")
_NEEDS = {
    "path": (),
    "subdomain": ("ingress_base_domain",),
    "claim": ("ingress_jwks_file",),
}
_MAY_HAVE = {"claim": ("ingress_tenant_claim",)}


def addressing(settings: Settings) -> Addressing:
    """How this ingress addresses requests.

    Raises:
        ConfigError: names the setting that is missing, wrong, or of another mode.
    """
    _check_together(settings)
    if settings.ingress_tenant_from == "subdomain":
        return _by_subdomain(_domain(settings.ingress_base_domain or ""))
    if settings.ingress_tenant_from == "claim":
        keys = _key_set(settings.ingress_jwks_file or Path())
        return _by_claim(keys, settings.ingress_tenant_claim or DEFAULT_CLAIM)
    return by_path


def by_path(request: web.BaseRequest) -> Address | None:
    """`/v1/hooks/{tenant}/{source}`."""
    parts = request.rel_url.raw_path.split("/")
    if len(parts) == 5 and parts[:3] == ["", "v1", "hooks"] and parts[3] and parts[4]:
        return parts[3], parts[4]
    return None


def _by_subdomain(domain: str) -> Addressing:
    suffix = "." + domain

    def address(request: web.BaseRequest) -> Address | None:
        source = _source(request)
        return None if source is None else (_label(request, suffix), source)

    return address


def _by_claim(keys: KeySet, claim: str) -> Addressing:
    registry = jwt.JWTClaimsRegistry(leeway=_CLOCK_SKEW_SECONDS)

    def address(request: web.BaseRequest) -> Address | None:
        source = _source(request)
        return None if source is None else (_claimed(request, keys, registry, claim), source)

    return address


def _source(request: web.BaseRequest) -> str | None:
    """`/v1/hooks/{source}`."""
    parts = request.rel_url.raw_path.split("/")
    return parts[3] if len(parts) == 4 and parts[:3] == ["", "v1", "hooks"] and parts[3] else None


def _label(request: web.BaseRequest, suffix: str) -> str:
    """The one label in front of the base domain, in lower case.

    A target in absolute form overrides the Host header (RFC 9112, section 3.2.2). If the two
    differ, or if several Host headers came, a proxy in front may have meant another host, so the
    request names no tenant.
    """
    given = request.headers.getall("Host", ())
    if len(given) != 1 or _hostname(given[0]) != _hostname(request.host):
        return ""
    label, found, rest = _hostname(given[0]).partition(suffix)
    return label if found and not rest and "." not in label else ""


def _hostname(host: str) -> str:
    return host.partition(":")[0].removesuffix(".").lower()


def _claimed(
    request: web.BaseRequest, keys: KeySet, registry: jwt.JWTClaimsRegistry, claim: str
) -> str:
    given = request.headers.getall("Authorization", ())
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer":
        return ""
    allowed = list(PUBLIC_KEY_ALGORITHMS)
    try:
        claims: dict[str, Any] = jwt.decode(token.strip(), keys, algorithms=allowed).claims
        registry.validate(claims)
    except Exception:  # a stranger's bytes can make the library raise anything
        return ""
    tenant_id = claims.get(claim)
    return tenant_id if isinstance(tenant_id, str) else ""


def _check_together(settings: Settings) -> None:
    mode = settings.ingress_tenant_from
    for name in _NEEDS[mode]:
        if getattr(settings, name) is None:
            raise ConfigError(
                f"TIDEGATE_INGRESS_TENANT_FROM={mode} needs TIDEGATE_{name.upper()}: set it"
            )
    for other in ("ingress_base_domain", "ingress_jwks_file", "ingress_tenant_claim"):
        allowed = (*_NEEDS[mode], *_MAY_HAVE.get(mode, ()))
        if other not in allowed and getattr(settings, other) is not None:
            raise ConfigError(
                f"TIDEGATE_{other.upper()} does nothing with TIDEGATE_INGRESS_TENANT_FROM={mode}: "
                "unset it, or choose the mode that it belongs to"
            )


def _domain(given: str) -> str:
    domain = given.lower().strip(".")
    if not _DOMAIN.fullmatch(domain):
        raise ConfigError(
            f"TIDEGATE_INGRESS_BASE_DOMAIN: {given!r} is no domain: write hooks.example.com"
        )
    return domain


def _key_set(path: Path) -> KeySet:
    setting = "TIDEGATE_INGRESS_JWKS_FILE"
    try:
        return KeySet(list(key_set(path.read_bytes())))
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from error
    except SignatureError as error:
        raise ConfigError(f"{setting}: {path} {error}") from None
