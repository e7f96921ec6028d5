"""TLS that ends in this process: a certificate that is read again when its files change.

It is the operator's, or that of the link; without one, TLS ends at a proxy before the process.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog

from streams.certificates import note_served
from streams.errors import ConfigError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 5.0
"""How often the files are looked at."""

_State = tuple[tuple[int, int, int], ...]


class ServedCertificate:
    """A server's certificate chain and key, from PEM files; `key` is None if `chain` has it too.

    `settings` begins the names of the settings, such as TIDEGATE_TLS.

    New connections get what the files hold. Files that do not fit together, as in the middle of a
    change, are passed over, and the certificate before them stays.
    """

    def __init__(self, chain: Path, key: Path | None, settings: str) -> None:
        """Read the files.

        Raises:
            ConfigError: they cannot be read, or do not fit together.
        """
        self._chain, self._key = chain, key
        self._taken: _State | None = None
        self.context = _context()
        try:
            self._take()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ConfigError(
                f"{settings}_CERT and {settings}_KEY: {chain} and {key or chain} are no "
                f"certificate and its key in PEM form ({_why(error)})"
            ) from error

    def look(self) -> bool:
        """Take the files if they have changed; return whether they were taken.

        Raises:
            OSError: they cannot be read now, or do not fit together.
        """
        if self._state() == self._taken:
            return False
        self._take()
        return True

    async def kept_fresh(self, taken: Callable[[], None]) -> None:
        """Look at the files again and again, until cancelled; call `taken` after each change."""
        failed = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if await asyncio.to_thread(self.look):
                    log.info("a new certificate is served", chain=str(self._chain))
                    taken()
                failed = ""
            except (OSError, ValueError) as error:
                why = _why(error)
                if why != failed:
                    log.error("the new certificate cannot be used", reason=why)
                failed = why

    def _take(self) -> None:
        state = self._state()
        # A context that refuses a key has lost its certificate already: try it on another one.
        for context in (_context(), self.context):
            context.load_cert_chain(self._chain, self._key, password=_no_password)
        self._taken = state

    def _state(self) -> _State:
        """Return what changes whenever a file does; links are followed, as Kubernetes needs it."""
        found = [path.stat() for path in (self._chain, self._key) if path is not None]
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)


@asynccontextmanager
async def served_tls(
    chain: Path | None, key: Path | None, settings: str, use: str
) -> AsyncIterator[ssl.SSLContext | None]:
    """Give the context of a server, kept fresh; None without a certificate.

    `settings` is as in `ServedCertificate`, and `use` that of the metric of certificates.

    Raises:
        ConfigError: certificate and key cannot be used together.
    """
    if chain is None:
        if key is not None:
            raise ConfigError(f"{settings}_KEY does nothing without {settings}_CERT: set both")
        yield None
        return
    certificate, note = ServedCertificate(chain, key, settings), partial(note_served, use, chain)
    note()
    looking = asyncio.create_task(certificate.kept_fresh(note))
    try:
        yield certificate.context
    finally:
        looking.cancel()


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> bytes:
    """Refuse an encrypted key; without this, OpenSSL would ask at the terminal.

    Raises:
        ValueError: always.
    """
    raise ValueError("the key has a password: give it without one")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
