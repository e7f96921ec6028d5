"""Each middleware of the default stack keeps the rules that hold for every middleware."""

from __future__ import annotations

import pytest

from streams.middleware import Middleware
from streams.testing import middleware_rules
from streams.testing.middleware_rules import Rule
from streams.worker.middleware.stack import DEFAULT


@pytest.mark.parametrize("rule", middleware_rules(), ids=str)
@pytest.mark.parametrize("member", [Middleware, *DEFAULT])
def test_a_middleware_keeps_each_rule(member: type[Middleware], rule: Rule) -> None:
    rule(member)
