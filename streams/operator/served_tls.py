"""The operator's own certificate, if TLS ends at the operator and not at a proxy before it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from streams.certificates import note_served
from streams.errors import ConfigError
from streams.operator.served_certificate import ServedCertificate
from streams.settings import Settings


@asynccontextmanager
async def served_tls(settings: Settings) -> AsyncIterator[ssl.SSLContext | None]:
    """Give the context of the operator's server, kept fresh; None without a certificate.

    Raises:
        ConfigError: certificate and key cannot be used together.
    """
    chain = settings.tls_cert
    if chain is None:
        if settings.tls_key is not None:
            raise ConfigError("TIDEGATE_TLS_KEY does nothing without TIDEGATE_TLS_CERT: set both")
        yield None
        return
    certificate, note = ServedCertificate(chain, settings.tls_key), partial(note_served, chain)
    note()
    looking = asyncio.create_task(certificate.kept_fresh(note))
    try:
        yield certificate.context
    finally:
        looking.cancel()
