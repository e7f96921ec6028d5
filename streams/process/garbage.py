"""Has Python look for cyclic garbage seldom, and never among the modules."""

from __future__ import annotations

import gc


def collect_seldom(new_objects: int, *generations: int) -> None:
    """Look for cyclic garbage after so many new objects, among those made from now on.

    Call it once everything is imported. By default Python looks after 700, and now and then through
    all modules, which holds up every thread for a tenth of a second. `generations` are the further
    thresholds of `gc.set_threshold`.
    """
    gc.freeze()
    gc.set_threshold(new_objects, *generations)
