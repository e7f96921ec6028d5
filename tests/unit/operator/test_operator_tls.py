"""The operator serves https, and a certificate that was renewed is served without a restart."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID
from prometheus_client import REGISTRY
from support.certificates import self_signed

from streams import served_tls as module
from streams.errors import ConfigError
from streams.probe_routes import probe_routes, served
from streams.served_tls import ServedCertificate, served_tls
from streams.settings import Settings, load_settings

END = "tidegate_certificate_not_after_timestamp_seconds"


def apart(pem: Path) -> tuple[Path, Path]:
    """The certificate and the key of a file, each in a file of its own."""
    key, begin, certificate = pem.read_text().partition("-----BEGIN CERTIFICATE")
    chain, private = pem.with_suffix(".crt"), pem.with_suffix(".key")
    chain.write_text(begin + certificate)
    private.write_text(key)
    return chain, private


@asynccontextmanager
async def https(settings: Settings) -> AsyncIterator[int]:
    """A server as the operator's is; gives its port."""
    app = web.Application()
    app.add_routes(probe_routes(lambda: True))
    tls = served_tls(settings.tls_cert, settings.tls_key, "TIDEGATE_TLS", "operator_server")
    async with tls as context, served(app, "127.0.0.1", 0, context) as port:
        yield port


async def shown(port: int) -> str:
    """The name in the certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    (name,) = load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


@pytest.mark.parametrize("together", [True, False])
async def test_https_is_served(tmp_path: Path, together: bool) -> None:
    pem = self_signed(tmp_path, "ops.example.com", days=5)
    chain, key = (pem, None) if together else apart(pem)
    async with https(Settings(tls_cert=chain, tls_key=key)) as port:
        assert await shown(port) == "ops.example.com"
    assert REGISTRY.get_sample_value(END, {"use": "operator_server"})


async def test_old_versions_of_tls_are_refused(tmp_path: Path) -> None:
    certificate = ServedCertificate(self_signed(tmp_path, "ops"), None, "TIDEGATE_TLS")
    assert certificate.context.minimum_version == ssl.TLSVersion.TLSv1_2


async def test_a_renewed_certificate_is_served_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    chain, key = apart(self_signed(tmp_path, "before"))
    async with https(Settings(tls_cert=chain, tls_key=key)) as port, asyncio.timeout(10):
        assert await shown(port) == "before"
        new_chain, new_key = apart(self_signed(tmp_path, "after"))
        new_chain.replace(chain)  # for a moment, the two files do not fit together
        assert await shown(port) == "before"
        new_key.replace(key)
        while await shown(port) != "after":
            await asyncio.sleep(0.01)


def test_files_that_do_not_fit_together_change_nothing(tmp_path: Path) -> None:
    chain, key = apart(self_signed(tmp_path, "before"))
    certificate = ServedCertificate(chain, key, "TIDEGATE_TLS")
    assert not certificate.look()
    other, _ = apart(self_signed(tmp_path, "after"))
    other.replace(chain)
    for _ in range(2):
        with pytest.raises(ssl.SSLError):
            certificate.look()


def test_a_link_that_is_changed_counts_as_a_change(tmp_path: Path) -> None:
    """Kubernetes renews a mounted secret by a link on the path to its file."""
    link = tmp_path / "tls.pem"
    link.symlink_to(self_signed(tmp_path, "before"))
    certificate = ServedCertificate(link, None, "TIDEGATE_TLS")
    link.unlink()
    link.symlink_to(self_signed(tmp_path, "after"))
    assert certificate.look()


def encrypted(folder: Path) -> Path:
    """A key under a password, for which OpenSSL would ask at the terminal."""
    key = ec.generate_private_key(ec.SECP256R1())
    path = folder / "encrypted.key"
    how = BestAvailableEncryption(b"password")
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    return path


@pytest.mark.parametrize("wrong", ["missing", "empty", "another key", "encrypted", "key alone"])
async def test_what_cannot_be_served_ends_the_start(tmp_path: Path, wrong: str) -> None:
    chain, key = apart(self_signed(tmp_path, "ops"))
    (tmp_path / "empty").touch()
    given: dict[str, tuple[Path | None, Path | None]] = {
        "missing": (tmp_path / "missing", key),
        "empty": (tmp_path / "empty", key),
        "another key": (chain, apart(self_signed(tmp_path, "other"))[1]),
        "encrypted": (chain, encrypted(tmp_path)),
        "key alone": (None, key),
    }
    tls_cert, tls_key = given[wrong]
    with pytest.raises(ConfigError, match="TIDEGATE_TLS_CERT"):
        async with https(Settings(tls_cert=tls_cert, tls_key=tls_key)):
            pass


def test_the_files_are_settings(tmp_path: Path) -> None:
    environ = {"TIDEGATE_TLS_CERT": "a.pem", "TIDEGATE_TLS_KEY": "b.pem"}
    found = load_settings(environ)
    assert (found.tls_cert, found.tls_key) == (Path("a.pem"), Path("b.pem"))
