"""The ends of certificates that a process tells are those of what it has read."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates
from prometheus_client import REGISTRY
from support.certificates import self_signed

from streams.certificates import NOT_AFTER, ends, note_certificates
from streams.settings import Settings

DAY = 86_400


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    NOT_AFTER.clear()


def days_left(use: str) -> int | None:
    name = "tidegate_certificate_not_after_timestamp_seconds"
    ends = REGISTRY.get_sample_value(name, {"use": use})
    return None if ends is None else round((ends - time.time()) / DAY)


def both(folder: Path, *days: int) -> Path:
    """A file with a certificate for each number of days."""
    made = [self_signed(folder, f"of-{each}", days=each).read_bytes() for each in days]
    path = folder / "all.pem"
    path.write_bytes(b"".join(made))
    return path


def test_a_clients_chain_ends_with_its_first_certificate(tmp_path: Path) -> None:
    chain = both(tmp_path, 40, 9)
    note_certificates(Settings(kafka={"ssl.certificate.location": str(chain)}))
    assert days_left("kafka_client") == 9


def test_an_ended_authority_beside_a_living_one_is_no_alarm(tmp_path: Path) -> None:
    authorities = both(tmp_path, -3, 40)
    note_certificates(
        Settings(kafka={"ssl.ca.location": str(authorities)}, egress_ca_file=authorities)
    )
    assert (days_left("kafka_authority"), days_left("egress_authority")) == (40, 40)


def test_certificates_in_the_settings_themselves_count_too(tmp_path: Path) -> None:
    pem = self_signed(tmp_path, "client", days=5).read_text()
    note_certificates(Settings(kafka={"ssl.certificate.pem": pem, "ssl.ca.pem": pem}))
    assert (days_left("kafka_client"), days_left("kafka_authority")) == (5, 5)


def test_a_keystore_is_opened_with_its_password(tmp_path: Path) -> None:
    pem = self_signed(tmp_path, "client", days=5).read_bytes()
    key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
    (authority,) = load_pem_x509_certificates(self_signed(tmp_path, "ca", days=2).read_bytes())
    store = tmp_path / "client.p12"
    kept = pkcs12.serialize_key_and_certificates(
        b"client",
        key,  # type: ignore[arg-type]
        certificate,
        [authority],
        NoEncryption(),
    )
    store.write_bytes(kept)
    note_certificates(Settings(kafka={"ssl.keystore.location": str(store)}))
    assert days_left("kafka_client") == 2


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_that_cannot_be_read_has_no_end(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "c.pem"
    if content is not None:
        path.write_bytes(content)
    note_certificates(Settings(kafka={"ssl.ca.location": str(path), "ssl.certificate.pem": "-"}))
    assert (days_left("kafka_authority"), days_left("kafka_client")) == (None, None)


def test_authorities_that_the_client_looks_for_itself_are_no_unreadable_file(
    tmp_path: Path,
) -> None:
    for place in "probe", str(tmp_path):
        assert list(ends(Settings(kafka={"ssl.ca.location": place}))) == []


def test_the_command_of_a_stage_notes_them_before_it_asks_a_broker(tmp_path: Path) -> None:
    authority = self_signed(tmp_path, "ca", days=7)
    code = (
        "from streams.cli.main import _prepare; from prometheus_client import generate_latest;"
        "_prepare('dedup'); print(generate_latest().decode())"
    )
    environ = {"TIDEGATE_KAFKA_SSL_CA_LOCATION": str(authority)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'timestamp_seconds{use="kafka_authority"}' in done.stdout
