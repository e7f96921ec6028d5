from __future__ import annotations

from harness import Result


def schedule() -> list[tuple[Result, float | None]]:
    return []
