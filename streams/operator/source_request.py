"""Body of `PUT /v1/tenants/{t}/sources/{source}`: validated as a whole, its secret resolved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import (
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from streams.errors import SignatureError
from streams.operator.links import web_link
from streams.operator.refusal import invalid
from streams.signature_options import OPTIONS, parse
from streams.signing_keys import check_secret
from streams.tenants import SCHEMES, SourceSettings

_MAX_SECRET_BYTES = 64 * 1024
_EXPRESSIONS = ("event_type", "subject", "occurred_at", "dedup_key")


class SourceRequest(SourceSettings):
    """Settings of a source and where its signing secret comes from: exactly one of the two."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: SecretStr | None = Field(default=None, min_length=1)
    secret_ref: str | None = None

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
                parse(OPTIONS[scheme], options)
            except SignatureError as error:
                raise ValueError(str(error)) from None
        return options

    @field_validator("callback_url")
    @classmethod
    def _link(cls, url: str | None) -> str | None:
        return web_link(url)

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if (self.secret is None) == (self.secret_ref is None):
            raise ValueError("give exactly one of secret and secret_ref")
        return self

    def settings(self) -> SourceSettings:
        """The settings without the secret, as they are stored."""
        return SourceSettings(**self.model_dump(include=set(SourceSettings.model_fields)))

    def secret_bytes(self) -> bytes:
        """The secret itself; a reference is resolved on this host, now.

        Raises:
            Refusal: 422, the reference leads to nothing, or the scheme cannot use the secret.
        """
        field = "secret_ref" if self.secret is None else "secret"
        found = self._given()
        try:
            check_secret(self.scheme, found)
        except SignatureError as error:
            raise invalid([(field, str(error))]) from None
        return found

    def _given(self) -> bytes:
        if self.secret is not None:
            return self.secret.get_secret_value().encode()
        try:
            found = _resolve(self.secret_ref or "")
        except ValueError as error:
            raise invalid([("secret_ref", str(error))]) from None
        except OSError as error:
            raise invalid([("secret_ref", f"cannot be read: {error.strerror}")]) from None
        if not found:
            raise invalid([("secret_ref", "leads to an empty secret")])
        return found


def _resolve(reference: str) -> bytes:
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        if name not in os.environ:
            raise ValueError(f"the operator's environment has no {name}")
        return os.environb[name.encode()]
    if kind == "file" and name.startswith("/"):
        path = Path(name)
        if not path.is_file() or path.stat().st_size > _MAX_SECRET_BYTES:
            raise ValueError(f"no file of at most {_MAX_SECRET_BYTES} bytes at {name}")
        # Editors and `echo` end a file with a newline that is no part of the secret.
        return path.read_bytes().rstrip(b"\r\n")
    raise ValueError("must be env:NAME or file:/absolute/path")


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
    try:
        jmespath.compile(expression)
    except JMESPathError as error:
        return f"{name}: {expression!r} is no JMESPath: {str(error).splitlines()[0]}"
    return None
