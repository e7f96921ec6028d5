"""The file that keeps a process's estimate of the broker's time for the next process.

A stage ends when the broker's clock was set, and a supervisor restarts it at once. If the new
process knew nothing, it would accept the new time, and ending would have protected nothing.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path

from streams.process.boot_clock import CLOCK
from streams.runtime.broker_clock_estimate import Estimate
from streams.settings import Settings

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ClockMemory:
    """One file, which is valid until the machine boots, because the boot clock then begins anew.

    It names that clock: a release whose boot clock was another one may have written it.
    On a system that does not identify its boots, such as macOS, nothing is remembered.
    """

    def __init__(self, path: Path, boot_id: Path = BOOT_ID) -> None:
        self.path = path
        self._boot: str | None = None
        with contextlib.suppress(OSError):
            self._boot = boot_id.read_text().strip()

    def recall(self, boot_ms: float) -> Estimate | None:
        """The estimate kept since the machine booted, if any; `boot_ms` is the time now."""
        try:
            kept = json.loads(self.path.read_bytes())
            if self._boot is None or (kept.pop("boot"), kept.pop("clock")) != (self._boot, CLOCK):
                return None
            estimate = Estimate(**{name: float(value) for name, value in kept.items()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return estimate if estimate.at <= boot_ms else None

    def keep(self, estimate: Estimate) -> None:
        """Replace the kept estimate; if the disk refuses the write, the old one stays."""
        if self._boot is None:
            return
        new = self.path.with_suffix(".new")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps({"boot": self._boot, "clock": CLOCK, **asdict(estimate)}))
            new.replace(self.path)


def clock_memory(settings: Settings, stage: str) -> ClockMemory:
    """The file of one process, beside its stores."""
    return ClockMemory(settings.data_dir / "state" / stage / settings.instance / "clock")
