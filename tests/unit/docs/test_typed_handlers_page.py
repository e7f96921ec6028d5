"""docs/typed-handlers.md shows the files of `typed_page/`, which run as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.api.job_types.table import JobTypeRow, job_type_json
from streams.serde.records import AnnouncedType
from streams.topology.load import load

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/typed-handlers.md").read_text()
SHOWN = Path(__file__).parent / "typed_page"
ROW = JobTypeRow(AnnouncedType("refund", 5, (10.0,), 300.0, (), None, None), "refunds", "7", 1)


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    names = "typed_refunds.py", "test_typed_refunds.py"
    assert blocks == [(SHOWN / name).read_text() for name in names]


@pytest.mark.parametrize("field", job_type_json(ROW, load()))
def test_the_page_says_what_each_field_of_a_job_type_is(field: str) -> None:
    assert re.search(rf"^\| (?:`\w+`, )*`{field}`", PAGE, re.MULTILINE)
