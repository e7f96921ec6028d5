"""Commands over the link that nobody can apply: they are refused, and end no owner."""

from __future__ import annotations

import pytest
from support.dispatching import Desk

from streams.runtime.link import LINK


@pytest.mark.parametrize("depth", [300, 3_000], ids=["unknown kind", "nested too deep"])
def test_a_command_that_nobody_can_read_is_refused_with_its_job(depth: int) -> None:
    desk = Desk()
    nested = b"[" * depth + b"]" * depth
    order = b'{"type":"command","partition":0,"number":7,"kind":"odd","job_id":"job_1","body":%b}'
    desk.driver.pipe(LINK, b"w1/b1", order % (b'{"news":%b}' % nested), partition=0)
    (refused,) = desk.replies()
    assert refused.kind == "refused"
