"""Resolves the secrets that sources' records refer to, and looks at their files every second.

A mounted secret can thus be changed without a restart. An environment variable keeps the value
that it had when the process started.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

import structlog
from prometheus_client import Gauge

from ingress.schemes import check_secret
from streams.errors import SecretUnresolved, SignatureError
from streams.process.daemon_thread import DaemonThread
from streams.tenants.secret_reference import FileState, file_state, resolve

log = structlog.get_logger(__name__)

UNRESOLVED = Gauge(
    "tidegate_ingress_unresolved_secrets",
    "References to a source's secret that lead to none here; without another secret it is closed",
)
_REFRESH_SECONDS = 1.0


class NamedSecret:
    """One key's secret, by its reference; `secret` is None while it cannot be resolved."""

    def __init__(self, reference: str, scheme: str, tenant_id: str, source: str) -> None:
        self.may_change = reference.startswith("file:")
        self._reference = reference
        self._scheme = scheme
        self._whose = {"tenant_id": tenant_id, "source": source, "reference": reference}
        self._known = True
        self._read: FileState | None = None
        self.secret: bytes | None = None

    def refresh(self) -> None:
        """Resolve it again; log once when it cannot be resolved, and once when it can again.

        A file that has not changed since it was last read well is not read again.
        """
        try:
            state = file_state(self._reference)
            if state is not None and state == self._read:
                return
            found = resolve(self._reference)
            check_secret(self._scheme, found)  # an unusable secret must not precede a usable one
        except Exception as error:  # no file may stop the refresh of other sources
            self._close(error)
            return
        if not self._known:
            log.info("a source's secret can be resolved again", **self._whose)
        elif self.secret not in (None, found):
            log.info("a source's secret has changed where it is kept", **self._whose)
        self._known, self.secret, self._read = True, found, state

    def _close(self, error: Exception) -> None:
        ours = isinstance(error, SecretUnresolved | SignatureError)  # others may show the secret
        if self._known:
            reason = str(error) if ours else type(error).__name__
            log.error("a source's secret cannot be resolved", **self._whose, reason=reason)
        self._known, self.secret, self._read = False, None, None


class References:
    """Refreshes every reference that is in use, in a thread of its own."""

    def __init__(self) -> None:
        self._named: WeakSet[NamedSecret] = WeakSet()
        self._lock = threading.Lock()
        self._thread = DaemonThread("references", self._run)

    def named(self, reference: str, scheme: str, tenant_id: str, source: str) -> NamedSecret:
        """A secret by reference, resolved now and kept current for as long as it is held."""
        found = NamedSecret(reference, scheme, tenant_id, source)
        found.refresh()
        with self._lock:
            self._named.add(found)
        return found

    def refresh(self) -> None:
        """Resolve again what may have changed."""
        living = self._living()
        for each in living:
            if each.may_change:
                each.refresh()
        UNRESOLVED.set(sum(each.secret is None for each in living))

    def start(self) -> None:
        """Begin to refresh every second."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; wait for the thread, 5 seconds at most."""
        self._thread.stop(5)

    def _run(self) -> None:
        while not self._thread.stopping.wait(_REFRESH_SECONDS):
            self.refresh()

    def _living(self) -> list[NamedSecret]:
        with self._lock:
            return list(self._named)
