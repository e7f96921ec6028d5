"""Where an owner of partitions listens for workers, by its settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from streams.errors import ConfigError
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class Listening:
    """A host and port, and the files with the certificate and its key; port 0 is any free one."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None


def listening(settings: Settings) -> Listening | None:
    """Where to listen; None if the settings name no place.

    Raises:
        ConfigError: the setting is malformed.
    """
    text = settings.link_listen
    if text is None or not text.strip():
        return None
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, port = parts.hostname, parts.port
        if not host or port is None or parts.path or parts.username:
            raise ValueError(text)
    except ValueError as error:
        raise ConfigError(
            f"TIDEGATE_LINK_LISTEN: {text!r} is no HOST:PORT, such as 0.0.0.0:8090"
        ) from error
    return Listening(host, port, settings.link_cert, settings.link_key)
