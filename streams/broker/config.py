"""Kafka's server.properties for one node that is broker and controller at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streams.broker.ports import HOST
from streams.errors import BrokerError, ConfigError

NODE_ID = 1
# The name becomes part of an option's name in Kafka's login configuration.
_USERNAME = re.compile(r"[A-Za-z0-9._-]+")
_CLIENTS = "CLIENTS"
_CONTROLLER = "CONTROLLER"

# The embedded broker decides address, identity and place; `extra` may set anything else.
_OWNED = frozenset({
    "process.roles", "node.id", "controller.quorum.voters", "controller.listener.names",
    "listeners", "advertised.listeners", "listener.security.protocol.map",
    "inter.broker.listener.name", "log.dirs", "log.dir",
    "metadata.log.dir",
})  # fmt: skip

_OF_A_BROKER = frozenset({"advertised.listeners", "inter.broker.listener.name"})

_SINGLE_NODE = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}

_BEHAVIOUR = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",  # the least of `session_seconds`
    "transaction.max.timeout.ms": "900000",
    # A stage waits for its positions in every transaction, and few groups profit from batching.
    "group.coordinator.append.linger.ms": "0",
    # Kafka looks for expired transactions every 10 s; a killed producer would hold back the last
    # stable offset for that long beyond its own timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Nothing could take over from the only broker: neither a busy machine nor an orderly stop (see
    # `fencing`) must cost it its leaderships.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3600000",
    "controlled.shutdown.enable": "false",
    # A payload chunk is 1 MiB; the rest is for key, headers and batch overhead.
    "message.max.bytes": str(2 * 1024 * 1024),
    "replica.fetch.max.bytes": str(2 * 1024 * 1024),
}

# This suits one developer's machine: few threads, and a cleaner that uses 16 MiB, not 128.
_FOOTPRINT = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}


@dataclass(frozen=True)
class BrokerSecurity:
    """A SASL_SSL listener with one user (SASL/PLAIN); every file in PEM.

    The certificate must name 127.0.0.1 (subjectAltName), since the broker also talks to itself.
    The key is PKCS#8 without a passphrase, as Kafka's PEM key store wants it (KIP-651).
    """

    username: str
    password: str = field(repr=False)
    certificate_file: Path
    key_file: Path
    ca_file: Path

    def __post_init__(self) -> None:
        if not _USERNAME.fullmatch(self.username):
            raise ConfigError(
                f"the broker's username {self.username!r} is not valid: use letters, digits, "
                "'.', '_' and '-'"
            )

    @property
    def client_settings(self) -> dict[str, str]:
        """librdkafka settings for a client; never log them: they hold the password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": self.username,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.ca_file),
        }


def server_properties(
    log_dir: Path,
    port: int,
    controller_port: int,
    security: BrokerSecurity | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Every setting of the server, `extra` last.

    Raises:
        ConfigError: `extra` sets what the embedded broker decides itself.
            BrokerError: a security file cannot be read, or the path cannot be written as a setting.
    """
    owned = _OWNED.intersection(extra or {})
    if owned:
        raise ConfigError(
            f"the embedded broker decides {', '.join(sorted(owned))} itself: take it out of `extra`"
        )
    return {
        **_SINGLE_NODE,
        **_BEHAVIOUR,
        **_FOOTPRINT,
        **_identity(log_dir),
        **_listeners(port, controller_port, "SASL_SSL" if security else "PLAINTEXT"),
        **(_security(security) if security else {}),
        **(extra or {}),
    }


def controller_properties(server: Mapping[str, str]) -> dict[str, str]:
    """The settings for a server's controller alone, which drops a silent broker at once."""
    controller = next(
        each for each in server["listeners"].split(",") if each.startswith(_CONTROLLER)
    )
    return {
        **{name: value for name, value in server.items() if name not in _OF_A_BROKER},
        "process.roles": "controller",
        "listeners": controller,
        "broker.heartbeat.interval.ms": "100",
        "broker.session.timeout.ms": "200",
    }


def render(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file, escaped as `java.util.Properties` reads it (ASCII)."""
    return "".join(f"{name}={_escape(value)}\n" for name, value in sorted(properties.items()))


def _escape(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if plain.startswith(" "):
        plain = "\\" + plain
    units = plain.encode("utf-16-be")
    pairs = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x7F else f"\\u{unit:04x}" for unit in pairs)


def _identity(log_dir: Path) -> dict[str, str]:
    if "," in str(log_dir):
        raise BrokerError(
            f"the data directory {log_dir} has a comma in its path, which Kafka reads as two "
            "directories; choose another with --data-dir"
        )
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "log.dirs": str(log_dir),
    }


def _listeners(port: int, controller_port: int, protocol: str) -> dict[str, str]:
    return {
        "listeners": f"{_CLIENTS}://{HOST}:{port},{_CONTROLLER}://{HOST}:{controller_port}",
        "advertised.listeners": f"{_CLIENTS}://{HOST}:{port}",
        "listener.security.protocol.map": f"{_CLIENTS}:{protocol},{_CONTROLLER}:{protocol}",
        "inter.broker.listener.name": _CLIENTS,
        "controller.listener.names": _CONTROLLER,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
    }


def _security(security: BrokerSecurity) -> dict[str, str]:
    """TLS and SASL for both listeners: the controller's must not be open to everyone."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f"username={_quote(security.username)} password={_quote(security.password)} "
        f"user_{security.username}={_quote(security.password)};"
    )
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"listener.name.{_CLIENTS.lower()}.plain.sasl.jaas.config": jaas,
        f"listener.name.{_CONTROLLER.lower()}.plain.sasl.jaas.config": jaas,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _read(security.certificate_file),
        "ssl.keystore.key": _read(security.key_file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": _read(security.ca_file),
    }


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise BrokerError(f"cannot read {path} for the broker's TLS listener: {error}") from error
