"""When the certificates end that this process read at its start.

Kafka's client and the TLS contexts of outgoing requests read their files when they are made. So a
file that was renewed helps a process only after its restart, and a process shows what it has read,
not what the file holds now. A file that cannot be read has no sample: whoever needs it reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12
from prometheus_client import Gauge

from streams.settings import Settings

NOT_AFTER = Gauge(
    "tidegate_certificate_not_after_timestamp_seconds",
    "When a certificate ends that this process read at its start, in Unix time",
    ["use"],
)
_PROBE = "probe"
"""With this `ssl.ca.location` librdkafka looks for the system's authorities; it also takes a
directory. Neither is one file that ends."""
Read = Callable[[], list[x509.Certificate]]


def note_certificates(settings: Settings) -> None:
    """Set the gauge for each certificate that the settings name."""
    for use, end in ends(settings):
        if end is not None:
            NOT_AFTER.labels(use).set(end)


def note_served(use: str, chain: Path) -> None:
    """Set the gauge for a server's own certificate, each time that it was read."""
    NOT_AFTER.labels(use).set(
        min(found.not_valid_after_utc.timestamp() for found in _file(chain)())
    )


def ends(settings: Settings) -> Iterator[tuple[str, float | None]]:
    """When each certificate that the settings name ends, in Unix time; None: it cannot be read.

    Of a client's chain the first end counts, because every certificate of it must hold. Of a file
    with authorities the last one counts, because collections of them hold ended ones too.
    """
    for use, counts, read in _uses(settings):
        try:
            yield use, counts([found.not_valid_after_utc.timestamp() for found in read()])
        except (OSError, ValueError):
            yield use, None


def _uses(settings: Settings) -> Iterator[tuple[str, Callable[[Iterable[float]], float], Read]]:
    kafka = settings.kafka
    if path := kafka.get("ssl.certificate.location"):
        yield "kafka_client", min, _file(path)
    elif pem := kafka.get("ssl.certificate.pem"):
        yield "kafka_client", min, _text(pem)
    elif path := kafka.get("ssl.keystore.location"):
        yield "kafka_client", min, _keystore(path, kafka.get("ssl.keystore.password", ""))
    if path := kafka.get("ssl.ca.location"):
        if path != _PROBE and not Path(path).is_dir():
            yield "kafka_authority", max, _file(path)
    elif pem := kafka.get("ssl.ca.pem"):
        yield "kafka_authority", max, _text(pem)
    if settings.egress_ca_file is not None:
        yield "egress_authority", max, _file(settings.egress_ca_file)
    if settings.link_ca is not None:
        yield "link_authority", max, _file(settings.link_ca)


def _file(path: str | Path) -> Read:
    return lambda: x509.load_pem_x509_certificates(Path(path).read_bytes())


def _text(pem: str) -> Read:
    return lambda: x509.load_pem_x509_certificates(pem.encode())


def _keystore(path: str, password: str) -> Read:
    def read() -> list[x509.Certificate]:
        kept = pkcs12.load_pkcs12(Path(path).read_bytes(), password.encode() or None)
        if kept.cert is None:
            raise ValueError("a keystore without a certificate")
        return [kept.cert.certificate, *(each.certificate for each in kept.additional_certs)]

    return read
