"""An embedded broker with settings of a test's own, and SASL_SSL where it asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streams.broker.embedded import EmbeddedKafka
from streams.broker.member import Member


@dataclass(frozen=True)
class BrokerSecurity:
    """One user (SASL/PLAIN) of listeners with SASL_SSL; every file in PEM.

    The certificate must name 127.0.0.1 (subjectAltName), since the broker also talks to itself.
    The key is PKCS#8 without a passphrase, as Kafka's PEM key store wants it (KIP-651).
    """

    username: str
    password: str
    certificate_file: Path
    key_file: Path

    @property
    def client_settings(self) -> dict[str, str]:
        """A librdkafka client's settings."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": self.username,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.certificate_file),
        }

    def server_settings(self, listeners: Iterable[str]) -> dict[str, str]:
        """The broker's settings: the controller's listener must not be open to everyone either."""
        jaas = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{self.username}" password="{self.password}" '
            f'user_{self.username}="{self.password}";'
        )
        certificate = self.certificate_file.read_text()
        return {
            "listener.security.protocol.map": ",".join(f"{name}:SASL_SSL" for name in listeners),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas for name in listeners},
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": self.key_file.read_text(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": certificate,
        }


class ConfiguredKafka(EmbeddedKafka):
    """An embedded broker whose settings `extra` adds to or overrides."""

    def __init__(
        self,
        data_dir: Path,
        *,
        security: BrokerSecurity | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data_dir)
        self._security = security
        self._extra = extra or {}

    @property
    def client_settings(self) -> dict[str, str]:
        return self._security.client_settings if self._security else {}

    def _properties(self, member: Member) -> dict[str, str]:
        plain = super()._properties(member)
        protocols = plain["listener.security.protocol.map"].split(",")
        names = [each.partition(":")[0] for each in protocols]
        secured = self._security.server_settings(names) if self._security else {}
        return {**plain, **secured, **self._extra}


def self_signed(directory: Path) -> BrokerSecurity:
    """A self-signed certificate for 127.0.0.1, its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return BrokerSecurity("tide", "p4ss word", directory / "cert.pem", directory / "key.pem")
