"""The token of the link, as the settings give it."""

from __future__ import annotations

from pathlib import Path

from streams.errors import ConfigError
from streams.settings import Settings

SHORTEST = 16
"""The characters that a token needs, so that nobody guesses it."""

_NAMES = "TIDEGATE_LINK_TOKEN and TIDEGATE_LINK_TOKEN_FILE"


def read_link_token(settings: Settings) -> str | None:
    """Return the token; None if there is none. A file is read now.

    Raises:
        ConfigError: both settings are set, the file cannot be read, or the token is too short.
    """
    given, path = settings.link_token, settings.link_token_file
    if given is not None and path is not None:
        raise ConfigError(f"{_NAMES} are both set: unset one")
    if path is not None:
        text = _read(path)
    elif given is not None:
        text = given.get_secret_value()
    else:
        return None
    if len(text.strip()) < SHORTEST:
        raise ConfigError(
            f"the token of {_NAMES.replace(' and ', ' or ')} has fewer than {SHORTEST} characters: "
            "give one that `tidegate tokens create NAME --role worker` made"
        )
    return text.strip()


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"TIDEGATE_LINK_TOKEN_FILE: cannot read {path}: {error}") from error
