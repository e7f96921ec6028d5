"""Bodies that set a source or rotate its secret, validated as a whole.

Only the form of a `secret_ref` is checked: each ingress resolves it in its own environment.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from pydantic import (
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ingress.formats.paths import expression_fault
from ingress.schemes import SCHEMES, check_secret
from ingress.schemes.options import parse
from streams.api.fields import WebLink
from streams.api.new_secret import OVERLAP_SECONDS, NewSecret
from streams.errors import SignatureError
from streams.tenants.settings import SourceSettings
from streams.tenants.source_keys import Secret

_LONGEST_OVERLAP_SECONDS = 30 * 86_400
_EXPRESSIONS = ("event_type", "subject", "occurred_at", "dedup_key")


class SourceSecret(NewSecret):
    """A secret under which a source's deliveries are signed."""

    def new_secret(self, scheme: str) -> Secret:
        """Return the secret or its reference, which only an ingress can resolve.

        Raises:
            Refusal: 422, the scheme cannot use the secret.
        """
        return self.checked(partial(check_secret, scheme))


class RotateRequest(SourceSecret):
    """Body of `POST .../rotate`: the old secret verifies for `overlap_seconds` more."""

    overlap_seconds: float = Field(
        default=OVERLAP_SECONDS, ge=0, le=_LONGEST_OVERLAP_SECONDS, strict=True
    )

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if not self.has_secret:
            raise ValueError("give exactly one of secret and secret_ref")
        return self


class SourceRequest(SourceSettings, SourceSecret):
    """Body of `PUT /v1/tenants/{t}/sources/{source}`: settings of a source, and its secret.

    Without a secret, a live source of the same scheme keeps its secrets and their ends.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    callback_url: WebLink | None = None

    @field_validator("scheme")
    @classmethod
    def _known(cls, scheme: str) -> str:
        if scheme not in SCHEMES:
            raise ValueError(f"{scheme!r} is not one of {', '.join(SCHEMES)}")
        return scheme

    @field_validator("mapping")
    @classmethod
    def _compiles(cls, mapping: dict[str, str | dict[str, str]]) -> dict[str, Any]:
        faults = [fault for name, path in mapping.items() for fault in _faults(name, path)]
        if faults:
            raise ValueError("; ".join(faults))
        return mapping

    @field_validator("options")
    @classmethod
    def _fit(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        scheme = info.data.get("scheme")
        if scheme is not None:
            try:
                parse(SCHEMES[scheme].options, options)
            except SignatureError as error:
                raise ValueError(str(error)) from None
        return options

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        if self.dedup_by != "key" and "dedup_key" in self.mapping:
            raise ValueError(
                f"dedup_by {self.dedup_by!r} takes no dedup key: remove mapping.dedup_key"
            )
        return self

    def settings(self) -> SourceSettings:
        """Return the settings without the secret, as they are stored."""
        return SourceSettings(**self.model_dump(include=set(SourceSettings.model_fields)))


def _faults(name: str, path: str | dict[str, str]) -> list[str]:
    if name == "attributes" and isinstance(path, dict):
        found = [_fault(f"attributes.{each}", inner) for each, inner in path.items()]
    elif name in _EXPRESSIONS and isinstance(path, str):
        found = [_fault(name, path)]
    else:
        known = ", ".join(_EXPRESSIONS)
        found = [f"{name}: takes {known} as expressions and attributes as an object of them"]
    return [fault for fault in found if fault is not None]


def _fault(name: str, expression: str) -> str | None:
    fault = expression_fault(expression)
    return None if fault is None else f"{name}: {fault}"
