"""Options of the signing schemes, as a source's settings carry them: values without any crypto.

The operator refuses with them what the ingress could not verify with: both use these models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from streams.errors import SignatureError

Encoding = Literal["hex", "base64"]

_PLACEHOLDER = re.compile(r"\{([a-z]*)\}")
_FIELDS = frozenset({"body", "timestamp", "url", "method"})
_HEADER_NAME = r"^[A-Za-z0-9-]{1,64}$"


class SchemeOptions(BaseModel):
    """Base of every scheme's options: what a scheme does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Chosen = TypeVar("Chosen", bound=SchemeOptions)


class TemplateOptions(SchemeOptions):
    """Options of a source with the scheme `hmac-sha256` or `ed25519`.

    `signed` is a template such as `{timestamp}.{body}`; a timestamp is read from
    `timestamp_header` (Unix or ISO 8601) and must be part of what is signed.
    """

    header: str = Field(default="X-Signature", pattern=_HEADER_NAME)
    prefix: str = Field(default="", max_length=64)
    encoding: Encoding = "hex"
    timestamp_header: str | None = Field(default=None, pattern=_HEADER_NAME)
    signed: str = Field(default="{body}", max_length=256, validate_default=True)
    tolerance_seconds: float = Field(default=300, gt=0)

    @field_validator("signed")
    @classmethod
    def _protects(cls, text: str, info: ValidationInfo) -> str:
        parts = template(text)
        fields = set(parts[1::2])
        if fields - _FIELDS or any(brace in literal for literal in parts[::2] for brace in "{}"):
            known = " ".join(f"{{{field}}}" for field in sorted(_FIELDS))
            raise ValueError(f"in braces it may hold {known}")
        if "body" not in fields:
            raise ValueError("without {body} nothing is protected")
        if ("timestamp" in fields) != (info.data.get("timestamp_header") is not None):
            raise ValueError("{timestamp} needs timestamp_header, and the reverse")
        return text


class ZendeskOptions(SchemeOptions):
    """`tolerance_seconds`: how far the signature's time may be from now, both ways."""

    tolerance_seconds: float = Field(default=300, gt=0)


class JwtOptions(SchemeOptions):
    """Options of a source with the scheme `jwt`.

    `body_claim` names the claim that holds the body's SHA-256. With `issuer` or `audience` the
    token must name it; without `audience` it may name none.
    """

    body_claim: str = Field(default="body_sha256", min_length=1, max_length=64)
    issuer: str | None = Field(default=None, min_length=1)
    audience: str | None = Field(default=None, min_length=1)


OPTIONS: Mapping[str, type[SchemeOptions]] = {
    "standard-webhooks": SchemeOptions,
    "stripe": SchemeOptions,
    "github": SchemeOptions,
    "shopify": SchemeOptions,
    "slack": SchemeOptions,
    "zendesk": ZendeskOptions,
    "twilio": SchemeOptions,
    "discord": SchemeOptions,
    "intercom": SchemeOptions,
    "linear": SchemeOptions,
    "pagerduty": SchemeOptions,
    "hmac-sha256": TemplateOptions,
    "ed25519": TemplateOptions,
    "jwt": JwtOptions,
}
"""The model of every scheme that a source may choose; most vendors leave nothing to choose."""


def parse(model: type[Chosen], options: Mapping[str, Any]) -> Chosen:
    """Options checked against their model.

    Raises:
        SignatureError: one is unknown or wrong; the message names it and not its value, which
            may be a secret put in the wrong place.
    """
    try:
        return model(**{str(name): value for name, value in options.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields) or "no options"
            said = f"there is none; this scheme takes {known}"
        raise SignatureError("bad_options", f"options.{name}: {said}") from None


def template(text: str) -> tuple[str, ...]:
    """A template's literal texts and, between them, the names of its placeholders."""
    return tuple(_PLACEHOLDER.split(text))
