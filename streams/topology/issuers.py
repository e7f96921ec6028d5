"""Issuers that people sign in with, and what their groups give here; secrets are references."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from streams.access.oidc.issuer import is_safe
from streams.topology.declared import Declared, Name, Text

_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\x00-\x1f\x7f]+")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")

Texts = Annotated[tuple[Text, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class IssuerDeclaration(Declared):
    """An issuer by its name; `issuer` is the URL by which it names itself.

    `client_secret` is where the secret lies, `env:NAME` or `file:/path`; a public client has none.
    `roles` and `tenants` are by group. Without `tenants`, everybody has all tenants.
    """

    name: Name
    issuer: Text
    client_id: Text
    client_secret: Text | None = None
    groups_claim: Text = "groups"
    scopes: Texts = ("openid", "profile", "email")
    roles: dict[Text, Text] = field(default_factory=dict)
    tenants: dict[Text, Texts] = field(default_factory=dict)

    def faults(self, roles: Container[str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what is wrong: the key, and why. `roles` are those that there are."""
        if not is_safe(self.issuer):
            yield ("issuer",), "is no https URL (http only on this machine); correct it"
        if self.client_secret is not None and not _REFERENCE.fullmatch(self.client_secret):
            # Not shown: a problem is printed and logged.
            yield (
                ("client_secret",),
                "is no reference; write env:NAME or file:/path, and the secret itself there",
            )
        for scope in self.scopes:
            if not _SCOPE.fullmatch(scope):
                yield ("scopes",), f"{scope!r} is no scope; correct it"
        if "openid" not in self.scopes:
            yield ("scopes",), "lacks openid, without which there is no ID token; add it"
        if not self.roles:
            yield ("roles",), "gives nobody a role; write {GROUP: ROLE}"
        for group, role in self.roles.items():
            if role not in roles:
                yield ("roles", group), f"{role} is no role; use a built-in one, or declare it"
