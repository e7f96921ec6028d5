"""What a stage's process knew of the broker's time, kept for the next one.

Whatever starts stages again starts one at once that ended because the broker's clock was set. If
that one knew nothing, it would take the new time, and the end would have protected nothing.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path

from streams.runtime.broker_clock_estimate import Estimate
from streams.settings import Settings

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ClockMemory:
    """One file, of use as long as the machine does not boot: then its boot clock begins anew.

    Where a system does not name its boots, macOS for one, nothing is remembered.
    """

    def __init__(self, path: Path, boot_id: Path = _BOOT_ID) -> None:
        self.path = path
        self._boot: str | None = None
        with contextlib.suppress(OSError):
            self._boot = boot_id.read_text().strip()

    def recall(self, boot_ms: float) -> Estimate | None:
        """What was kept since the machine booted, if anything; it is `boot_ms` now."""
        try:
            kept = json.loads(self.path.read_bytes())
            if self._boot is None or kept.pop("boot") != self._boot:
                return None
            estimate = Estimate(**{name: float(value) for name, value in kept.items()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return estimate if estimate.at <= boot_ms else None

    def keep(self, estimate: Estimate) -> None:
        """Replace what is kept; a disk that does not take it keeps the old."""
        if self._boot is None:
            return
        new = self.path.with_suffix(".new")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps({"boot": self._boot, **asdict(estimate)}))
            new.replace(self.path)


def clock_memory(settings: Settings, stage: str) -> ClockMemory:
    """The memory of one process, beside its stores."""
    return ClockMemory(settings.data_dir / "state" / stage / settings.instance / "clock")
