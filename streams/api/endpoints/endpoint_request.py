"""Bodies that set an outgoing endpoint or rotate its signing key, validated as a whole.

Whether a request may go to the URL is `egress`'s to say, because it looks names up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from streams.api.new_secret import OVERLAP_SECONDS, NewSecret
from streams.api.refusal import invalid
from streams.delivery.message.formats import mapping_fault
from streams.tenants.endpoints import CALLBACKS, EndpointOptions, EndpointSettings

MOST_GLOBS = 100
MOST_HEADERS = 32
_MOST_HEADER_BYTES = 8_192
"""Of all names and values: most servers refuse a request with a larger head."""
_LONGEST_OVERLAP_SECONDS = 7 * 86_400
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_OURS = frozenset(
    {
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
        "traceparent",
    }
)
_OUR_PREFIXES = ("webhook-", "proxy-")

_GLOB = re.compile(r"[^\x00-\x1f\x7f]{1,255}")


class EndpointRequest(EndpointOptions, NewSecret):
    """Body of `PUT /v1/tenants/{t}/endpoints/{id}`: settings, secret and headers.

    Without a secret an endpoint keeps its keys, and a new one gets a key that is made here. Without
    `headers` it keeps its headers; a header whose value is null keeps the value that it has.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mapping: str | None = Field(default=None, validate_default=True)
    description: str = Field(default="", max_length=1_000)
    headers: dict[str, str | None] | None = Field(default=None, repr=False)

    @field_validator("events", "sources")
    @classmethod
    def _few_and_short(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        if not 1 <= len(globs) <= MOST_GLOBS:
            raise ValueError(f"must have 1 to {MOST_GLOBS} globs; * alone matches all")
        for glob in globs:
            if not _GLOB.fullmatch(glob):
                raise ValueError(f"{glob[:255]!r} is no glob: use 1 to 255 printable characters")
        return globs

    @field_validator("mapping")
    @classmethod
    def _only_mapped(cls, mapping: str | None, info: ValidationInfo) -> str | None:
        of_format = info.data.get("format")
        if of_format == "mapped" and not mapping:
            raise ValueError("must be given: format mapped sends what this JMESPath selects")
        if mapping is not None and of_format not in ("mapped", None):
            raise ValueError(f"format {of_format} has no mapping: leave it out, or choose mapped")
        if mapping is not None and (fault := mapping_fault(mapping)):
            raise ValueError(fault)
        return mapping

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: dict[str, str | None] | None) -> dict[str, str | None] | None:
        given = headers or {}
        faults = [fault for name, value in given.items() if (fault := _header_fault(name, value))]
        if len({name.lower() for name in given}) < len(given):
            faults.append("a name is given twice, in upper and lower case")
        if faults:
            raise ValueError("; ".join(faults))
        return headers

    @property
    def keeps_headers(self) -> bool:
        """Whether headers that the endpoint has already are needed for the new ones."""
        return self.headers is None or None in self.headers.values()

    def merged_headers(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the headers to be sent; `before` are those that the endpoint has.

        Raises:
            Refusal: 422, a value is to be kept and there is none, or they are too many.
        """
        if self.headers is None:
            return dict(before)
        kept = {name.lower(): value for name, value in before.items()}
        lacking = [n for n, v in self.headers.items() if v is None and n.lower() not in kept]
        if lacking:
            raise invalid("headers", f"there is no value of {lacking[0]} to keep: give one")
        merged = {n: kept[n.lower()] if v is None else v for n, v in self.headers.items()}
        if len(merged) > MOST_HEADERS:
            raise invalid(
                "headers",
                f"has {len(merged)} headers, at most {MOST_HEADERS} are sent: leave some out",
            )
        if (size := sum(len(n) + len(v) for n, v in merged.items())) > _MOST_HEADER_BYTES:
            raise invalid(
                "headers",
                f"has {size} bytes of names and values, at most "
                f"{_MOST_HEADER_BYTES} are sent: shorten them",
            )
        return merged

    def settings(self, name: str, created_at: int) -> EndpointSettings:
        """Return the settings as they are stored; `created_at` in milliseconds.

        Raises:
            Refusal: 422, the URL is missing, or is one too many.
        """
        if name == CALLBACKS and self.url is not None:
            raise invalid(
                "url",
                f"must not be given: {CALLBACKS} serves the callback_url of "
                "each job; choose another id for an endpoint of its own",
            )
        if name != CALLBACKS and not self.url:
            raise invalid("url", "must be given: where deliveries are posted")
        chosen: dict[str, Any] = self.model_dump(include=set(EndpointOptions.model_fields))
        return EndpointSettings(**chosen, created_at=created_at)


class EndpointRotation(NewSecret):
    """Body of `POST .../rotate`: the old key signs beside the new one for `overlap_seconds`."""

    overlap_seconds: float = Field(
        default=OVERLAP_SECONDS, ge=0, le=_LONGEST_OVERLAP_SECONDS, strict=True
    )


def _header_fault(name: str, value: str | None) -> str | None:
    if not _TOKEN.fullmatch(name):
        return f"{name[:128]!r} is no name of a header: use letters, digits and -"
    if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIXES):
        return f"{name} is set by Tidegate or by the connection: choose another name"
    if value is not None and not _VALUE.fullmatch(value):
        return (
            f"the value of {name} must be visible ASCII, with spaces and tabs only inside, and no "
            "line breaks"
        )
    return None
