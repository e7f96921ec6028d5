"""Certificates of receivers, made for one test."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """A private authority; `file` has its certificate."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    file: Path

    def issue(self, name: str, path: Path) -> Path:
        """Write the key and certificate of a DNS name to a PEM file."""
        key = ec.generate_private_key(ec.SECP256R1())
        issued = _signed(name, key, self.name, self.key, is_authority=False)
        path.write_bytes(_private(key) + issued.public_bytes(Encoding.PEM))
        return path


def authority(file: Path, name: str) -> Authority:
    """A new authority, whose certificate is written to a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    own = _signed(name, key, _subject(name), key)
    file.write_bytes(own.public_bytes(Encoding.PEM))
    return Authority(own.subject, key, file)


def self_signed(folder: Path, name: str, *, days: int = 1) -> Path:
    """A PEM file with key and certificate of a name; negative `days` make an expired one."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(name, key, _subject(name), key, days=days)
    path = folder / f"{name}.pem"
    path.write_bytes(_private(key) + certificate.public_bytes(Encoding.PEM))
    return path


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    by: ec.EllipticCurvePrivateKey,
    *,
    days: int = 1,
    is_authority: bool = True,
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(_subject(name)).issuer_name(issuer)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=10)).not_valid_after(now + timedelta(days))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    limits = x509.BasicConstraints(ca=is_authority, path_length=None)
    return made.add_extension(limits, critical=True).sign(by, hashes.SHA256())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def server_tls(pem: Path) -> ssl.SSLContext:
    """TLS of a server with this key and certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context
