"""Authenticates a request: its signature must hold under a secret of the source that it addresses.

G3: the tenant comes from the route (`ingress/tenants/addressing.py`), and the signature must hold
under a secret of that tenant's source.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from prometheus_client import Counter

from ingress.receive.problems import UNAUTHORIZED, Refused
from ingress.schemes import SignedRequest, Verified, verifier
from ingress.tenants.sources import Source, SourceTable
from streams.errors import SignatureError

SIGNATURE_FAILURES = Counter(
    "tidegate_ingress_signature_failures_total",
    "Requests whose signature did not hold; scheme `none`: no such source",
    ["scheme", "reason"],
)
OLD_KEYS = Counter(
    "tidegate_ingress_old_key_matches_total",
    "Requests signed with a secret that is not the source's newest",
    ["scheme"],
)

_NOBODY = verifier("hmac-sha256", {})
_NOBODYS_SECRETS = {0: os.urandom(32)}


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A source whose sender signed the request, and the secret under which the signature held."""

    source: Source
    verified: Verified
    secret: bytes


class Authenticator:
    """Finds the source of a request and checks the signature under its secrets."""

    def __init__(self, sources: SourceTable) -> None:
        self._sources = sources

    def authenticate(self, tenant_id: str, name: str, request: SignedRequest) -> Authenticated:
        """The source that the request addresses, if its signature holds.

        Raises:
            Refused: 401, the same for every cause, and after the same time.
        """
        source = self._sources.lookup(tenant_id, name)
        held = source.secrets(request.now) if source else {}
        # A source without a secret is refused like an unknown one, and takes as long.
        verify, secrets = (source.verify, held) if source and held else (_NOBODY, _NOBODYS_SECRETS)
        scheme = source.settings.scheme if source else "none"
        try:
            verified = verify(tuple(secrets.values()), request)
        except SignatureError as error:
            reason = "no_secret" if source and not held else error.reason
            SIGNATURE_FAILURES.labels(scheme, reason).inc()
            usable = source if held else None
            cause = self._cause(tenant_id, name, usable, error.reason, request.now)
            raise Refused(UNAUTHORIZED, cause=cause) from None
        if source is None or not held:
            cause = self._cause(tenant_id, name, None, "mismatch", request.now)
            raise Refused(UNAUTHORIZED, cause=cause)
        if tuple(held)[verified.key_index] > 0:
            OLD_KEYS.labels(scheme).inc()
        return Authenticated(source, verified, tuple(held.values())[verified.key_index])

    def _cause(
        self, tenant_id: str, name: str, usable: Source | None, failed: str, now: float
    ) -> str:
        """What the operator is told of a 401, whose sender is told nothing.

        Each refusal looks up both, so that none takes longer than another.
        """
        found = self._sources.lookup(tenant_id, name)
        closed = self._sources.why_closed(tenant_id, name)
        if usable is not None:
            return failed
        secretless = "unknown_source" if found is None else found.without_secret(now)
        return closed or secretless
