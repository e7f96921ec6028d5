"""In whose name a decision is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streams.access.permissions import ROLES
from streams.access.principal import BOOTSTRAP, Principal
from streams.api.refusal import Refusal
from streams.api.rights import author

ADA = Principal("person:corp:ada", "Ada", "admin", ROLES["admin"])
BOT = Principal("token:5o0c2l8n1d3r7k9v", "bot", "approver", ROLES["approver"])


def named(caller: Principal, by: str | None) -> str:
    state: Any = SimpleNamespace(principal=caller)
    return author(state, by)


@pytest.mark.parametrize("caller", [ADA, BOT, BOOTSTRAP])
def test_who_names_nobody_or_oneself_is_the_author(caller: Principal) -> None:
    assert named(caller, None) == named(caller, caller.id) == caller.id


@pytest.mark.parametrize("caller", [ADA, BOT])
def test_nobody_decides_in_another_name(caller: Principal) -> None:
    with pytest.raises(Refusal, match=f"you decide as {caller.id} alone"):
        named(caller, "grace")


def test_a_token_of_an_administrator_vouches_for_a_name() -> None:
    assert named(BOOTSTRAP, "grace") == "grace"
