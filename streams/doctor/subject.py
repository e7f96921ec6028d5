"""Whom the doctor looks at: the settings as the processes have them, and the embedded Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from streams.broker.cluster_status import read_cluster_status
from streams.dev_state import read_state
from streams.doctor.commands import Commands
from streams.errors import BrokerError, ConfigError
from streams.settings import Settings
from streams.topology.load import Checked, checked

_SECRET_NAMES = ("pass", "secret", "key.pem", "jaas", "token", "oauthbearer.config")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at.

    `embedded` is the version of the brokers if `tidegate` started them. `url` is the operator's
    address, if one is known, and `commands` writes the remedies. `stage` narrows the look to what
    this process needs, `pool` to that of its workers, and `app` names their application.
    """

    settings: Settings
    topology: Checked | ConfigError
    commands: Commands
    stage: str | None = None
    pool: str = "default"
    url: str | None = None
    embedded: str | None = None
    app: str | None = None

    @property
    def secrets(self) -> frozenset[str]:
        """What no text may show."""
        return frozenset(filter(None, _secrets(self.settings)))


def subject(
    settings: Settings,
    stage: str | None,
    url: str | None,
    pool: str = "default",
    app: str | None = None,
) -> Subject:
    """The subject of these settings, as a `dev` on their data directory completes them."""
    running = read_state(settings.data_dir)
    address = url or running.get("url")
    of_dev = running if running.get("bootstrap") == settings.bootstrap else {}
    return Subject(
        _as_dev_has(settings, running) if running else settings,
        _topology(settings.topology),
        Commands(settings, url, of_dev),
        stage,
        pool,
        address if isinstance(address, str) else None,
        _embedded(settings),
        app,
    )


def _topology(overlay: Path | None) -> Checked | ConfigError:
    try:
        return checked(overlay)
    except ConfigError as error:
        return error


def _as_dev_has(settings: Settings, running: Mapping[str, Any]) -> Settings:
    """With the addresses, keys and tokens of a `dev` in its directory, where none are set."""
    keys = settings.data_dir / "keys"
    found: dict[str, object] = {}
    if not settings.vault_key_file and not settings.vault_keys and _kept(keys / "vault.key"):
        found["vault_key_file"] = (keys / "vault.key",)
    if not settings.link and isinstance(running.get("link"), list):
        found["link"] = tuple(map(str, running["link"]))
    if settings.link_token is None and settings.link_token_file is None:
        found["link_token_file"] = keys / "link.token"
    if settings.admin_token is None:
        with suppress(OSError, ValueError):  # a damaged file is no token
            token = (settings.data_dir / "admin.token").read_text().strip()
            found["admin_token"] = SecretStr(token)
    return settings.model_copy(update=found)


def _kept(path: Path) -> bool:
    """Whether there is a file, or one that this user may not see: whoever reads it says so."""
    try:
        return path.exists()
    except OSError:
        return True


def _embedded(settings: Settings) -> str | None:
    """The version of the brokers of the data directory, if they are the ones that are meant."""
    try:
        nodes = read_cluster_status(settings.data_dir).nodes.values()
    except (BrokerError, OSError):  # damaged, or of another user
        return None
    meant = set(settings.bootstrap.split(","))
    return next((node.version for node in nodes if node.bootstrap in meant), None)


def _secrets(settings: Settings) -> Iterator[str]:
    for name, value in settings.kafka.items():
        if any(part in name for part in _SECRET_NAMES):
            yield value
    for kept in (settings.admin_token, settings.vault_keys, settings.link_token):
        if kept is not None:
            yield from kept.get_secret_value().split(",")
    if settings.egress_proxy:
        yield settings.egress_proxy
    if settings.link_token_file is not None:
        with suppress(OSError, ValueError):
            yield settings.link_token_file.read_text().strip()
