"""A receiver that passes messages on to an ingress, and loses the first answer of it."""

from __future__ import annotations

from collections.abc import Callable

from support.dev_process import get
from support.hook_receiver import HookReceiver

_PASSED = ("content-type", "webhook-id", "webhook-timestamp", "webhook-signature")


class Onward(HookReceiver):
    """`statuses` are the ingress's answers; the first 2xx is lost, and `lost` called then."""

    def __init__(self, url: str, lost: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._to = url
        self._lost = lost
        self.statuses: list[int] = []

    @property
    def taken(self) -> list[int]:
        """The answers that are 2xx."""
        return [status for status in self.statuses if status < 300]

    def answer(self, headers: dict[str, str], body: bytes) -> int | None:
        self.got.append((headers, body))
        status, _ = get(self._to, {name: headers[name] for name in _PASSED}, body)
        self.statuses.append(status)
        if len(self.taken) != 1 or status >= 300:
            return status
        if self._lost:
            self._lost()
        return None
