"""The golden outputs of the Helm chart: one whole, and what each other case changes in it.

`python -m support.chart_golden` writes them anew, and the README of the chart.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from support import chart, chart_readme

_WIDEST = 1000
_WHOLE = chart.TESTS / "cases" / "default.yaml"


def path_of(case: Path) -> Path:
    """Where the golden output of a case is."""
    suffix = "yaml" if case == _WHOLE else "diff"
    return chart.TESTS / "golden" / f"{case.stem}.{suffix}"


def golden(case: Path) -> str:
    """The output of a case: whole for the default, otherwise what differs from it."""
    text = _stripped(chart.rendered(case))
    if case == _WHOLE:
        return text
    lines = difflib.unified_diff(
        _stripped(chart.rendered(_WHOLE)).splitlines(),
        text.splitlines(),
        "default",
        case.stem,
        n=1,
        lineterm="",
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _stripped(text: str) -> str:
    """Without empty lines, at which Helm's versions differ, and the rest of a dashboard's line."""
    return "".join(f"{line.rstrip()[:_WIDEST]}\n" for line in text.splitlines() if line.strip())


def main() -> None:
    """Write all golden outputs and the README."""
    wanted = {path_of(case): golden(case) for case in chart.CASES}
    for path in (chart.TESTS / "golden").iterdir():
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.write_text(text)
    chart_readme.write()


if __name__ == "__main__":
    main()
