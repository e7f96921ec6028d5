"""Every command of a run goes through redaction, and a field that it does not know is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from streams.errors import PermanentError
from streams.redaction.redaction import Redaction
from streams.serde.effect_states import DONE
from streams.serde.records import (
    Checkpoint,
    ChildSpec,
    Claim,
    Ended,
    Enqueue,
    Outcome,
    Sealed,
    StepResult,
    Wait,
)
from streams.serde.records.worker_commands import PolicyObjection
from streams.serde.run_ends import BLOCKED, FAILED, PARKED, SUCCEEDED
from streams.worker.handler.redacted import check_arguments, redacted, redacted_result
from streams.worker.handler.run_result import RunResult, describe, raised

MAIL, SECRET = "ann@example.com", "secret-value-1"


@pytest.fixture
def rules() -> Redaction:
    found = Redaction(fields=["$..pin"], presets=["mail"])
    found.secrets.add(SECRET)
    return found


def claim(action: str) -> Claim:
    return Claim("clm", "run", action, b"", 0)


def ended(status: Any, **given: Any) -> Ended:
    blank = {"result": None, "error": None, "traceback": None, **given}
    return Ended(run_id="run", status=status, retry_after_seconds=None, **blank)


def test_json_and_texts_are_redacted_at_every_depth(rules: Redaction) -> None:
    left = StepResult("draft", "step", value=f'{{"to":"{MAIL}","pin":1}}', message=SECRET)
    found = redacted(Checkpoint("run", left), rules)
    assert found.step.value == '{"to":"[redacted]","pin":"[redacted]"}'
    assert found.step.message == "[redacted]"
    outcome = Outcome("clm", "run", f"mail/{MAIL}", DONE, f'"{SECRET}"', f"Error: {MAIL}")
    assert redacted(outcome, rules).result == '"[redacted]"'
    assert redacted(outcome, rules).error == "Error: [redacted]"
    objection = PolicyObjection("no-mails", "deny", f"not to {MAIL}")
    denied = redacted(replace(claim("mail/1"), objection=objection), rules)
    assert denied.objection == PolicyObjection("no-mails", "deny", "not to [redacted]")
    spec = ChildSpec("mail", "mail", f'["{MAIL}"]', b"")
    child = redacted(Enqueue("clm", "run", left, spec), rules)
    assert child.child.input == '["[redacted]"]'


@pytest.mark.parametrize("name", [f"mail/{MAIL}", f"mail/{SECRET}"])
def test_a_name_with_a_secret_is_refused_and_not_shown(rules: Redaction, name: str) -> None:
    with pytest.raises(PermanentError, match="action holds a secret") as error:
        redacted(claim(name), rules)
    assert name not in str(error.value)
    with pytest.raises(PermanentError, match="id holds a secret"):
        redacted(Wait(name, "event", 0, b""), rules)
    with pytest.raises(PermanentError, match="match holds a secret"):
        redacted(Wait("w", "event", 0, b"", match=f'{{"subject":"{name}"}}'), rules)


def test_what_tidegate_itself_fills_is_left_alone(rules: Redaction) -> None:
    assert redacted(replace(claim("mail/1"), claim_id=MAIL), rules).claim_id == MAIL
    sealed = Sealed("key", SECRET.encode())
    assert redacted(sealed, rules) is sealed


def test_a_field_of_a_new_command_is_refused_if_it_holds_a_secret(rules: Redaction) -> None:
    @dataclass(frozen=True)
    class New:
        run_id: str
        surprise: str

    assert redacted(New(SECRET, "fine"), rules) == New(SECRET, "fine")
    with pytest.raises(PermanentError, match="surprise holds a secret"):
        redacted(New("run", SECRET), rules)


def test_what_was_checked_when_it_was_asked_for_never_stops_the_end(rules: Redaction) -> None:
    wait = Wait(MAIL, "event", 0, b"")
    assert redacted(ended(PARKED, waits=(wait,)), rules).waits == (wait,)
    blocked = ended(BLOCKED, result=f'["tenant","mail/{MAIL}"]')
    assert redacted(blocked, rules).result == blocked.result


def test_the_end_of_a_run_is_redacted_before_it_is_logged(rules: Redaction) -> None:
    found = redacted_result(RunResult(SUCCEEDED, f'{{"to":"{MAIL}","pin":2}}'), rules)
    assert found.result == '{"to":"[redacted]","pin":"[redacted]"}'
    found = redacted_result(RunResult(FAILED, error=MAIL, traceback=SECRET), rules)
    assert (found.error, found.traceback) == ("[redacted]", "[redacted]")


def test_a_secret_at_the_place_where_a_text_is_cut_does_not_leave_a_part(rules: Redaction) -> None:
    for before in range(1_970, 2_001):
        told = describe(ValueError("x" * before + " " + SECRET + "y" * 9_000), rules.text)
        assert "secret" not in told
        assert "value-1" not in told

    def raises(before: int) -> None:
        raise ValueError("x" + SECRET + "y" * before)

    for before in range(3_900, 4_001, 7):
        with pytest.raises(ValueError, match="x") as error:
            raises(before)
        assert "value-1" not in str(raised(error.value, rules.text).traceback)


@pytest.mark.parametrize("size", [1, 300, 250_000, 262_100, 300_000, 3_000_000])
def test_of_a_huge_error_a_part_is_searched_and_no_secret_shown(
    rules: Redaction, size: int
) -> None:
    searched = []

    def clean(text: str) -> str:
        searched.append(len(text))
        return rules.text(text)

    for secrets in (SECRET, f"{SECRET} " * 40_000):
        for message in (secrets + "x" * size + secrets, "x" * size + secrets + "x" * size):
            with pytest.raises(ValueError, match="x") as error:
                raise ValueError(message)
            told = raised(error.value, clean)
            assert (told.error or "").startswith("ValueError: ")
            assert SECRET[2:] not in f"{told.error}{told.traceback}"
            assert SECRET[:-2] not in f"{told.error}{told.traceback}"
    assert max(searched) <= 262_144


def test_an_argument_that_is_a_credential_is_refused(rules: Redaction) -> None:
    check_arguments(rules, {"to": MAIL}, "effect mail/1")  # its digest alone is sent
    with pytest.raises(PermanentError, match="argument 'to' holds a credential"):
        check_arguments(rules, {"to": [SECRET]}, "effect mail/1")


def test_without_rules_a_command_is_the_same_object() -> None:
    body = claim(MAIL)
    assert redacted(body, Redaction()) is body
    assert fields(body)
