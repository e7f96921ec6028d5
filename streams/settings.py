"""Settings of every process: file < environment (`TIDEGATE_*`) < flags.

The file is `tidegate.toml` in the working directory, or the one `TIDEGATE_CONFIG` names.
`TIDEGATE_KAFKA_<NAME>` (or the file's `[kafka]` table) passes a librdkafka setting to every
client: `TIDEGATE_KAFKA_SECURITY_PROTOCOL=SASL_SSL` sets `security.protocol`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, IPvAnyNetwork, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from streams.errors import ConfigError

_KAFKA_PREFIX = "TIDEGATE_KAFKA_"
ANSWER_MS = 10_000
"""How long a broker may take to answer. librdkafka's default is 60 s: for so long a client would
stay with a broker that hangs or is cut off, although another one has taken over (G8)."""


def _split(given: object) -> object:
    if isinstance(given, str | Path):
        return tuple(name.strip() for name in str(given).split(",") if name.strip())
    return given


def _places(given: object) -> object:
    if not isinstance(given, str | list | tuple):
        return given
    texts = given.split(",") if isinstance(given, str) else map(str, given)
    return frozenset(_place(text.strip()) for text in texts if text.strip())


def _place(text: str) -> tuple[str, int, int]:
    topic, *numbers = text.split(":")
    if not topic or len(numbers) != 2 or not all(n.isdecimal() for n in numbers):
        raise ValueError(f"{text!r} is no topic:partition:offset, such as events:0:1200")
    return topic, int(numbers[0]), int(numbers[1])


Networks = Annotated[tuple[IPvAnyNetwork, ...], NoDecode, BeforeValidator(_split)]
"""Networks such as 10.0.0.0/8, separated by commas."""

Ports = Annotated[
    tuple[Annotated[int, Field(ge=1, le=65535)], ...], NoDecode, BeforeValidator(_split)
]
"""Ports, separated by commas."""

Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Names, separated by commas."""

Files = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split)]
"""One file or several, separated by commas."""

Places = Annotated[frozenset[tuple[str, int, int]], NoDecode, BeforeValidator(_places)]
"""Records, written topic:partition:offset and separated by commas."""


class Settings(BaseSettings):
    """One process's settings; sizes in bytes, times in seconds."""

    model_config = SettingsConfigDict(
        env_prefix="TIDEGATE_", extra="ignore", frozen=True, hide_input_in_errors=True
    )

    bootstrap: str = "127.0.0.1:9092"
    topology: Path | None = None
    topic_prefix: str = ""
    data_dir: Path = Path(".tidegate")
    instance: str = "0"
    admin_token: SecretStr | None = None
    take_admin_token: bool = True
    """Whether the operator takes the admin token beside the tokens that were made with it."""
    vault_key_file: Files = ()
    vault_keys: SecretStr | None = None
    link: Names = ()
    """Of a worker: where owners of partitions listen, as ws://HOST:PORT or wss://HOST:PORT."""
    link_ca: Path | None = None
    """Of a worker: the authorities that it believes, in PEM, in place of the system's."""
    link_listen: str | None = None
    """Of an owner of partitions: HOST:PORT at which it listens for workers."""
    link_cert: Path | None = None
    """Of an owner: its certificate chain in PEM; without it, the link is in the clear."""
    link_key: Path | None = None
    """The key of that certificate; without it, the key is in the certificate's file."""
    link_token: SecretStr | None = None
    """Of a worker: what it dials the owners of partitions with. Of an owner: it admits a worker."""
    link_token_file: Path | None = None
    """A file with that token in place of it."""
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    public_url: str | None = None
    """Where browsers find the operator: people return there from the issuer they sign in with."""
    tls_cert: Path | None = None
    """The operator's certificate chain in PEM; TLS ends at the operator if it is given."""
    tls_key: Path | None = None
    """The key of that certificate; without it, the key is in the certificate's file."""
    probe_port: int = Field(default=0, ge=0, le=65535)
    ingress_tenant_from: Literal["path", "subdomain", "claim"] = "path"
    ingress_base_domain: str | None = None
    ingress_jwks_file: Path | None = None
    ingress_tenant_claim: str | None = None
    slots: int = Field(default=20, ge=1)
    """Handlers that a worker runs at once."""
    set_aside: Places = frozenset()
    """Records that a stage sends to `dlq` unprocessed, because its own code cannot handle them."""
    session_seconds: float = Field(default=10.0, ge=1, le=300)
    """Of consumers and transactions: a killed process is replaced within it."""
    events_listed_hours: int = Field(default=24, ge=1)
    """How old the events are that the operator lists; older ones are on the topic alone."""
    live_kept_hours: int = Field(default=6, ge=1)
    """How old the tokens and log lines are that the operator keeps for readers of streams."""
    schemas_need_token: bool = False
    """Whether readers of schemas need the admin token, too."""
    egress_allow_networks: Networks = ()
    """Networks that outgoing requests may reach although they are not public."""
    egress_allow_http: bool = False
    egress_deny_ports: Ports = ()
    """Ports that outgoing requests may not use, beside those that are denied anyway."""
    egress_own_hosts: Names = ()
    """Tidegate's own names and addresses, which outgoing requests may not reach."""
    # Its URL may contain a password.
    egress_proxy: str | None = Field(default=None, repr=False)
    egress_ca_file: Path | None = None
    egress_connections_per_host: int = Field(default=8, ge=1)
    artifacts: str | None = None
    """Where large values of jobs lie: file:///a/directory or s3://bucket/folder."""
    credentials_url: str | None = None
    """The store that the provider `http` of credentials asks."""
    credentials_token_file: Path | None = None
    in_flight_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    # It may contain passwords and keys.
    kafka: dict[str, str] = Field(default_factory=dict, repr=False)

    @property
    def session_timeout_ms(self) -> int:
        """`session_seconds` as Kafka's clients want it."""
        return round(self.session_seconds * 1000)

    def required_admin_token(self, whose: str) -> str:
        """The admin token of an API.

        Raises:
            ConfigError: there is none; the message begins with `whose` API it is.
        """
        token = self.admin_token.get_secret_value() if self.admin_token else ""
        if not token.strip():
            raise ConfigError(
                f"{whose} API needs an admin token: set TIDEGATE_ADMIN_TOKEN "
                "(`openssl rand -hex 32` makes one)"
            )
        return token.strip()

    def client(self, **overrides: Any) -> dict[str, Any]:
        """librdkafka configuration: the caller's defaults, then the operator's settings.

        librdkafka's own log lines are turned off: the same faults come as errors, which we log
        once. A lost connection is retried each second: the default of 10 s would prolong every
        outage (G8).
        """
        defaults = {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 1_000,
            "socket.timeout.ms": ANSWER_MS,
        }
        return {**defaults, **overrides, **self.kafka}


def load_settings(environ: Mapping[str, str] | None = None, **flags: Any) -> Settings:
    """Read file, environment and flags; a flag given as None counts as not given.

    Raises:
        ConfigError: names the setting and where it came from.
    """
    environ = os.environ if environ is None else environ
    file, given = _from_file(environ), _from_environment(environ)
    merged = {**file, **given}
    if "kafka" in given and isinstance(file.get("kafka"), dict):
        merged["kafka"] = {**file["kafka"], **given["kafka"]}
    merged |= {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**merged)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"setting {name!r} is not valid: {first['msg']} "
            f"(set it by flag, TIDEGATE_{name.partition('.')[0].upper()}, or in tidegate.toml)"
        ) from error


def _from_file(environ: Mapping[str, str]) -> dict[str, Any]:
    named = environ.get("TIDEGATE_CONFIG")
    path = Path(named or "tidegate.toml")
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if named:
            raise ConfigError(f"TIDEGATE_CONFIG names {path}, which does not exist") from None
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read ({error.strerror})") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    fields = set(Settings.model_fields) - {"kafka"}
    plain = {
        f: environ[f"TIDEGATE_{f.upper()}"] for f in fields if f"TIDEGATE_{f.upper()}" in environ
    }
    kafka = {
        name.removeprefix(_KAFKA_PREFIX).lower().replace("_", "."): value
        for name, value in environ.items()
        if name.startswith(_KAFKA_PREFIX)
    }
    return {**plain, **({"kafka": kafka} if kafka else {})}
