"""TLS and SASL for the listeners of the embedded Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from streams.errors import BrokerError, ConfigError

# The name becomes part of an option's name in Kafka's login configuration.
_USERNAME = re.compile(r"[A-Za-z0-9._-]+")


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


def security_properties(security: BrokerSecurity, listeners: Iterable[str]) -> dict[str, str]:
    """TLS and SASL for all listeners: the controller's must not be open to everyone."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f"username={_quote(security.username)} password={_quote(security.password)} "
        f"user_{security.username}={_quote(security.password)};"
    )
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas for name in listeners},
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
