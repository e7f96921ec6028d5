"""The generic schemes `hmac-sha256`, `ed25519` and `token`: a source's options are the layout."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from ingress.schemes import layout
from ingress.schemes.challenges import GenericOptions, webhook_validation
from ingress.schemes.layout import HMAC, Algorithm, Layout, check, sign
from ingress.schemes.preset import GENERIC
from ingress.schemes.request import Encoding
from ingress.schemes.scheme import Scheme

_PLACEHOLDER = re.compile(r"\{([a-z]*)\}")
_FIELDS = frozenset({"body", "timestamp", "url", "method"})
_HEADER_NAME = r"^[A-Za-z0-9-]{1,64}$"


class TemplateOptions(GenericOptions):
    """Options of a source with the scheme `hmac-sha256` or `ed25519`.

    `signed` is a template such as `{timestamp}.{body}`. A timestamp must be part of what is signed;
    it is read from `timestamp_header`, or from the element of `header` that begins with
    `timestamp_prefix`. `separator` divides `header` into such elements.
    """

    header: str = Field(default="X-Signature", pattern=_HEADER_NAME)
    prefix: str = Field(default="", max_length=64)
    encoding: Encoding = "hex"
    separator: str | None = Field(default=None, min_length=1, max_length=4)
    timestamp_header: str | None = Field(default=None, pattern=_HEADER_NAME)
    timestamp_prefix: str | None = Field(default=None, min_length=1, max_length=64)
    signed: str = Field(default="{body}", max_length=256, validate_default=True)
    tolerance_seconds: float = Field(default=300, gt=0)

    @field_validator("timestamp_prefix")
    @classmethod
    def _separated(cls, prefix: str | None, info: ValidationInfo) -> str | None:
        if prefix is not None and info.data.get("separator") is None:
            raise ValueError("needs separator, which divides the header")
        if prefix is not None and info.data.get("timestamp_header") is not None:
            raise ValueError("the time is in a header of its own: remove timestamp_header")
        return prefix

    @field_validator("signed")
    @classmethod
    def _protects(cls, text: str, info: ValidationInfo) -> str:
        parts = _template(text)
        fields = set(parts[1::2])
        if fields - _FIELDS or any(brace in literal for literal in parts[::2] for brace in "{}"):
            known = " ".join(f"{{{field}}}" for field in sorted(_FIELDS))
            raise ValueError(f"in braces it may hold {known}")
        if "body" not in fields:
            raise ValueError("without {body} nothing is protected")
        given = (info.data.get(name) for name in ("timestamp_header", "timestamp_prefix"))
        if ("timestamp" in fields) != any(name is not None for name in given):
            raise ValueError("{timestamp} needs timestamp_header, and the reverse")
        return text


class TokenOptions(GenericOptions):
    """Options of a source with the scheme `token`: the header that repeats the secret."""

    header: str = Field(default="Authorization", pattern=_HEADER_NAME)
    prefix: str = Field(default="", max_length=64)


def chosen(options: TemplateOptions) -> Layout:
    """The layout that a source's options describe."""
    return Layout(
        options.header,
        options.prefix,
        options.encoding,
        _template(options.signed),
        options.timestamp_header,
        options.tolerance_seconds,
        separator=options.separator,
        timestamp_prefix=options.timestamp_prefix,
    )


def _template(text: str) -> tuple[str, ...]:
    """A template's literal texts and, between them, the names of its placeholders."""
    return tuple(_PLACEHOLDER.split(text))


def _generic(
    layout_of: Callable[[Any], Layout], options: type[GenericOptions], by: Algorithm = HMAC
) -> Scheme:
    return Scheme(
        GENERIC,
        lambda given: partial(check, layout_of(given), by=by),
        lambda given: partial(sign, layout_of(given), by=by),
        options,
        by.decode_secret,
        challenge=webhook_validation,
        public_key=by.public_key,
    )


HMAC_SHA256 = _generic(chosen, TemplateOptions)
ED25519 = _generic(chosen, TemplateOptions, layout.ED25519)
TOKEN = _generic(lambda options: Layout(options.header, options.prefix), TokenOptions, layout.TOKEN)
