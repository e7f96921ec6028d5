"""Keys and tokens of a data directory: made at first use, in files only their owner can read.

<data-dir>/keys/vault.key                32 random bytes
<data-dir>/keys/link.token               text: workers dial the owners of partitions with it
<data-dir>/keys/<name>.secret            text: a sample source's signing secret
<data-dir>/admin.token                   text: the operator's API
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from streams.dev.data_dir_lock import unusable
from streams.errors import ConfigError
from streams.settings import Settings
from streams.vault.key_encryption import KEY_BYTES


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets that the processes of one data directory share."""

    vault_key_file: tuple[Path, ...]
    link_token_file: Path | None
    admin_token: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """The environment variables in which the processes get them."""
        link = self.link_token_file
        return {
            "TIDEGATE_VAULT_KEY_FILE": ",".join(map(str, self.vault_key_file)),
            "TIDEGATE_ADMIN_TOKEN": self.admin_token,
            **({} if link is None else {"TIDEGATE_LINK_TOKEN_FILE": str(link)}),
        }


def credentials(settings: Settings) -> Credentials:
    """The given ones, otherwise those of the data directory, otherwise new ones kept there.

    A given admin token is kept in the directory too, for the commands that talk to the API.

    Raises:
        ConfigError: the directory cannot be written, or the admin token is empty.
    """
    keys = key_folder(settings.data_dir)
    return Credentials(
        _vault_key_files(settings, keys / "vault.key"),
        _link_token_file(settings, keys / "link.token"),
        _admin_token(settings),
    )


def _vault_key_files(settings: Settings, own: Path) -> tuple[Path, ...]:
    if settings.vault_keys:
        return ()  # every process gets the keys from the environment, as this one did
    return settings.vault_key_file or (_kept(own, secrets.token_bytes(KEY_BYTES)),)


def _link_token_file(settings: Settings, own: Path) -> Path | None:
    if settings.link_token is not None:
        return None  # every process gets the token as this one did
    return settings.link_token_file or _kept(own, secrets.token_urlsafe(24).encode())


def _admin_token(settings: Settings) -> str:
    file = settings.data_dir / "admin.token"
    if settings.admin_token is None:
        return _kept(file, secrets.token_urlsafe(24).encode()).read_text().strip()
    token = settings.admin_token.get_secret_value()
    if not token:
        raise ConfigError("TIDEGATE_ADMIN_TOKEN is empty: unset it to have one generated")
    _write(file, token.encode())
    return token


def signing_secret(data_dir: Path, name: str) -> str:
    """A secret of the data directory for a sample source."""
    file = _kept(key_folder(data_dir) / f"{name}.secret", secrets.token_urlsafe(24).encode())
    return file.read_text().strip()


def key_folder(data_dir: Path) -> Path:
    """`<data_dir>/keys`, which only its owner may enter."""
    folder = data_dir / "keys"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise unusable(data_dir, error) from error
    return folder


def _kept(path: Path, fresh: bytes) -> Path:
    if not path.exists():
        _write(path, fresh)
    return path


def _write(path: Path, content: bytes) -> None:
    """Write the file whole or not at all, and never readable by others."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
