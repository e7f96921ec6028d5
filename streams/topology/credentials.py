"""Credentials that handlers may ask for: references to where their values lie, never the values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from streams.topology.declared import Declared, Name, Text

Globs = Annotated[tuple[Text, ...], Field(min_length=1)]
TENANT = "{tenant}"
"""What stands for the tenant's id in a reference."""

_FORMS = {
    "environment": (re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "the name of an environment variable"),
    "file": (re.compile(r"/[^\x00-\x1f\x7f]+"), "an absolute path"),
    "http": (
        re.compile(r"[A-Za-z0-9{][\w{}./~-]*(#[^\x00-\x1f\x7f#]+)?"),
        "a path in the store, with #FIELD behind it",
    ),
}
"""The references of the providers that ship; an application's own ones take any text."""


@dataclass(frozen=True, slots=True)
class CredentialDeclaration(Declared):
    """A credential by its name; `tenants` and `job_types` are globs of the jobs that may have it.

    With `{tenant}` in the reference, each tenant has a value of its own.
    """

    name: Name
    provider: Name
    reference: Text
    tenants: Globs = ("*",)
    job_types: Globs = ("*",)

    def is_for_type(self, job_type: str) -> bool:
        """Whether jobs of the type may have it."""
        return _matches(self.job_types, job_type)

    def is_for(self, tenant_id: str, job_type: str) -> bool:
        """Whether the tenant's jobs of the type may have it."""
        return _matches(self.tenants, tenant_id) and self.is_for_type(job_type)

    def reference_of(self, tenant_id: str) -> str:
        """The reference of a tenant's own value."""
        return self.reference.replace(TENANT, tenant_id)

    @property
    def fault(self) -> str | None:
        """What is wrong with the reference; None if its provider can follow it."""
        form, said = _FORMS.get(self.provider, (None, ""))
        # A tenant's id is a name without slashes, so any stands for all.
        if form is None or form.fullmatch(self.reference.replace(TENANT, "T")):
            return None
        return f"provider {self.provider} takes {said} as its reference; correct it"


def _matches(globs: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
