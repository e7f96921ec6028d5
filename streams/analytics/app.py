"""A Faust application that reads Tidegate's topics as they are meant to be read.

`faust_app` is public: `examples/analytics` counts a team's own figures with it. It needs the extra
`tidegate[analytics]`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import faust
from faust.types.auth import CredentialsT
from faust.types.codecs import CodecT

from streams.analytics.committed import CommittedTransport
from streams.errors import ConfigError
from streams.event_reader.group import require_own_group
from streams.serde.codec import DUPLICATE, ENVELOPE, JOB, LEDGER_ENTRY, Codec
from streams.settings import Settings, load_settings

CODECS: Mapping[str, Codec[Any]] = {
    "events": ENVELOPE,
    "duplicates": DUPLICATE,
    "jobs": JOB,
    "ledger": LEDGER_ENTRY,
}
"""What the values of the topics are that an application may read."""

_COMMIT_SECONDS = 1.0
"""The doctor looks at positions twice, 2 s apart; with Faust's 2.8 s they often stand still."""

_USED = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
}


class TidegateApp(faust.App):
    """Faust's application with a consumer that reads committed records only."""

    Transport: type[Any] = CommittedTransport
    tidegate: Settings

    def _new_transport(self) -> Any:
        return self.Transport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        self.conf.datadir.mkdir(parents=True, exist_ok=True)
        super()._create_directories()


def faust_app(name: str, settings: Settings | None = None, **own: Any) -> TidegateApp:
    """A Faust application of the consumer group `name`; `own` are settings of Faust's.

    It reads committed records only, begins with the oldest, keeps its tables in RocksDB, and
    reaches Kafka as Tidegate does: by `bootstrap`, `topic_prefix` and the security settings of
    `TIDEGATE_KAFKA_*`. Faust's tables are counted at least once (docs/analytics.md).

    Raises:
        ConfigError: a security setting that Faust's client does not have, or the group is one of
            Tidegate's own, whose positions it would take over.
    """
    require_own_group(name)
    settings = settings or load_settings()
    app = TidegateApp(f"{settings.topic_prefix}{name}", **{**faust_settings(name, settings), **own})
    app.tidegate = settings
    return app


def faust_settings(name: str, settings: Settings) -> dict[str, Any]:
    """Faust's settings as Tidegate's say them.

    Raises:
        ConfigError: a security setting that Faust's client does not have.
    """
    return {
        "broker": [f"kafka://{host.strip()}" for host in settings.bootstrap.split(",")],
        "broker_credentials": credentials(settings.kafka),
        "broker_commit_interval": _COMMIT_SECONDS,
        "broker_session_timeout": settings.session_seconds,
        "broker_heartbeat_interval": settings.session_seconds / 5,
        "consumer_auto_offset_reset": "earliest",
        "datadir": settings.data_dir / "faust" / name / settings.instance,
        "store": "rocksdb://",
        "topic_disable_leader": True,
        "web_enabled": False,
    }


def topic(app: TidegateApp, name: str, *, raw: bool = False) -> faust.Topic:
    """One of Tidegate's topics; its values are dicts with the fields of their schema, or `raw`."""
    return _Declared(
        app,
        topics=[f"{app.tidegate.topic_prefix}{name}"],
        key_serializer="raw",
        value_serializer="raw" if raw else _Avro(CODECS[name]),
    )


class _Declared(faust.Topic):
    """A topic that `topology.yaml` declares: Faust must not create it with settings of its own."""

    async def declare(self) -> None:
        """Do nothing; `tidegate topology apply` creates it."""


class _Avro(CodecT):
    """Reads one kind of Tidegate's records for Faust; a tombstone stays None."""

    def __init__(self, codec: Codec[Any]) -> None:
        self._codec = codec

    def loads(self, value: bytes) -> Any:
        return None if value is None else self._codec.read(value)

    def dumps(self, value: Any) -> bytes:
        raise ConfigError(f"{self._codec.name}: this topic is Tidegate's own: write to another")

    def clone(self, *children: CodecT) -> CodecT:
        return self

    def __or__(self, other: Any) -> Any:
        return NotImplemented


def credentials(kafka: Mapping[str, str]) -> CredentialsT | None:
    """librdkafka's security settings as Faust's; other settings of librdkafka are not used.

    Raises:
        ConfigError: a security setting that Faust's client does not have.
    """
    foreign = {name for name in kafka if name.startswith(("sasl.", "ssl."))} - _USED
    protocol = kafka.get("security.protocol", "plaintext").lower()
    if foreign or protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        named = ", ".join(sorted(foreign)) or f"security.protocol={protocol}"
        raise ConfigError(
            f"analytics cannot use the Kafka setting {named}, which Faust's client does not have: "
            f"use {', '.join(sorted(_USED))}"
        )
    context = _tls(kafka) if protocol.endswith("ssl") else None
    if protocol.startswith("sasl"):
        return faust.SASLCredentials(
            username=kafka.get("sasl.username"),
            password=kafka.get("sasl.password"),
            mechanism=kafka.get("sasl.mechanism") or kafka.get("sasl.mechanisms") or "PLAIN",
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context=context)


def _tls(kafka: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=kafka.get("ssl.ca.location"))
        if (certificate := kafka.get("ssl.certificate.location")) is not None:
            key, password = kafka.get("ssl.key.location"), kafka.get("ssl.key.password")
            context.load_cert_chain(certificate, key, password)
    except OSError as error:
        raise ConfigError(f"TLS for Kafka: {error}: see TIDEGATE_KAFKA_SSL_*") from error
    context.check_hostname = (
        kafka.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    )
    return context
