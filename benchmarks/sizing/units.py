"""Numbers in formulas, as people read them."""

from __future__ import annotations

_STEPS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def size(value: float) -> str:
    """Bytes in decimal units, as disks are sold."""
    for step, unit in _STEPS:
        if value >= step:
            return f"{value / step:,.1f} {unit}"
    return f"{value:,.0f} B"


def count(value: float) -> str:
    """A number of things, or of things a second."""
    for step, unit in ((1e9, "G"), (1e6, "M")):
        if value >= step:
            return f"{value / step:,.1f} {unit}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2g}"


def span(seconds: float) -> str:
    """A duration, in its largest unit."""
    for step, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= step:
            return f"{seconds / step:.3g} {unit}"
    return f"{seconds:.2g} s"
