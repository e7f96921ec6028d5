"""Whatever counts rows is named here, with what bounds the count."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

COUNTING = {
    "streams/operator/counts.py": "metrics: a few seconds apart, and not in a call",
    "streams/api/rows/paging.py": "of those metrics: what waits for a person",
    "streams/api/rows/bounded.py": "1,000 rows at most, in an inner query with a LIMIT",
    "streams/api/rows/matched.py": "10,000 at most, in an inner query with a LIMIT",
    "streams/api/limits/uses.py": "100,000 jobs at most, in inner queries with a LIMIT",
    "streams/api/jobs/running.py": "what runs: as many as there are slots",
    "streams/api/jobs/places.py": "the jobs of one workflow, by its index",
    "streams/api/workflows/tree.py": "the jobs of one workflow that ask something of people",
    "streams/api/endpoints/table.py": "the endpoints of one tenant: 1,000 at most",
    "streams/api/dead_letters/table.py": "the newest 10,000, in an inner query with a LIMIT",
    "streams/api/deliveries/table.py": "metrics: a second apart, and not in a call",
}


def test_what_counts_rows_is_known_with_its_reason() -> None:
    files = [p for part in ("api", "operator") for p in (ROOT / "streams" / part).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in files
        if re.search(r"\bcount\(\*\)", path.read_text(), re.IGNORECASE)
    }
    assert found - COUNTING.keys() == set(), "bound it with a LIMIT in an inner query"
    assert COUNTING.keys() - found == set(), "it counts nothing any more: leave it out here"
