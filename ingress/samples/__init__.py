"""Sample bodies of each scheme, written by us in the shape that the vendor documents.

A body is `<scheme>/<name>.json`, or `.form` where the vendor sends a form. Each time that a sample
is made it gets a new id and the present time, so that it is a new event.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

from ingress.schemes import SCHEMES
from streams.errors import ConfigError

_CONTENT_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class Sample:
    """A body and the unsigned headers that its vendor sends with it."""

    body: bytes
    headers: Mapping[str, str]


def names(scheme: str) -> list[str]:
    return sorted(path.name.rpartition(".")[0] for path in (files(__name__) / scheme).iterdir())


def sample(scheme: str, name: str | None, now: float, identity: uuid.UUID | None = None) -> Sample:
    """A new event of that name, or of the scheme's first; `now` is in seconds since the epoch.

    With an `identity`, a repetition has the ids of the first, so that it is the same event.

    Raises:
        ConfigError: the scheme has no sample of that name.
    """
    known = names(scheme)
    chosen = name or known[0]
    if chosen not in known:
        raise ConfigError(f"{scheme} has no sample {chosen!r}: use one of {', '.join(known)}")
    [path] = [
        p for p in (files(__name__) / scheme).iterdir() if p.name.rpartition(".")[0] == chosen
    ]
    own = identity or uuid.uuid4()
    body = _filled(path.read_text(), own, now).encode()
    content_type = _CONTENT_TYPES[path.name.rpartition(".")[2]]
    return Sample(body, _headers(scheme, chosen, own, content_type))


def _filled(text: str, own: uuid.UUID, now: float) -> str:
    values = {
        "id": own.hex,
        "now": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": str(int(now)),
        "millis": str(int(now * 1000)),
    }
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def _headers(scheme: str, name: str, own: uuid.UUID, content_type: str) -> dict[str, str]:
    preset = SCHEMES[scheme].preset
    headers = {"Content-Type": content_type}
    if preset.type_header:
        headers[preset.type_header] = name.replace(".", "/")
    if preset.delivery_header:
        headers[preset.delivery_header] = str(own)
    return headers
