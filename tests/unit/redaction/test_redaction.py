"""Values and texts without the secrets that this process knows, and by rules."""

from __future__ import annotations

import base64
import json
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import pytest
from pydantic import BaseModel
from yarl import URL

from streams import user_json
from streams.redaction.patterns import fault
from streams.redaction.redaction import Redaction
from streams.redaction.secrets import LEAST_CHARS, KnownSecrets
from streams.worker.live.line import Line, written

SECRET = 'k3y "with\\odd\nchars/ü+'


def knowing(*values: str) -> Redaction:
    found = Redaction()
    for value in values:
        found.secrets.add(value)
    return found


def test_without_rules_and_secrets_nothing_changes() -> None:
    idle = Redaction()
    assert idle.is_idle
    assert idle.json('{"a" : 1}') == '{"a" : 1}'
    assert not knowing("secret-1").is_idle
    assert not Redaction(presets=["mail"]).is_idle


def test_a_known_secret_is_taken_out_in_every_form() -> None:
    redaction = knowing(SECRET)
    for text in (SECRET, repr(SECRET), json.dumps(SECRET), quote(SECRET, safe=""), f"a{SECRET}b"):
        found = redaction.text(text)
        assert "[redacted]" in found
        assert "k3y" not in found
    text = user_json.write({"a": [SECRET], SECRET: 1}).decode()
    assert json.loads(redaction.json(text)) == {"a": ["[redacted]"], "[redacted]": 1}


def as_json(value: str) -> str:
    return json.dumps({"key": value})


def as_readable_json(value: str) -> str:
    return json.dumps({"key": value}, ensure_ascii=False)


def as_shown(value: str) -> str:
    return repr({"key": value, "beside": "it's"})


def as_key_error(value: str) -> str:
    """Shows its text as Python writes it, with both kinds of quotes."""
    return str(KeyError(f"""it's "{value}"."""))


_WRITERS = (as_json, as_readable_json, as_shown, as_key_error)


@pytest.mark.parametrize("outer", _WRITERS)
@pytest.mark.parametrize("inner", _WRITERS)
@pytest.mark.parametrize(
    "secret",
    [SECRET, "it's a key", "-----BEGIN KEY-----\nabc/def+ghi==\n-----END KEY-----\n"],
    ids=["odd", "quote", "lines"],
)
def test_a_known_secret_is_taken_out_of_a_text_inside_of_a_text(
    secret: str, inner: Callable[[str], str], outer: Callable[[str], str]
) -> None:
    assert "[redacted]" in knowing(secret).text(outer(inner(secret)))


@pytest.mark.parametrize(
    "secret", ["ab+cd/ef==gh", "a key/of: 2 words", "p&q=r;s+t", "what?/for:@!"]
)
def test_a_known_secret_is_taken_out_of_each_url_that_has_it(secret: str) -> None:
    redaction, host = knowing(secret), URL("http://api.test")
    urls = [
        host.with_query(key=secret),
        host.update_query([("a", "1"), ("key", secret)]),
        host / secret,
        host.with_fragment(secret),
        f"http://api.test/?{urlencode({'key': secret})}",
        f"http://api.test/{quote(secret)}",
    ]
    for url in map(str, urls):
        assert redaction.text(url).count("[redacted]") == 1, url


def test_a_known_secret_is_taken_out_without_the_space_around_it() -> None:
    assert knowing(" with-an-end\n").text("Bearer with-an-end.") == "Bearer [redacted]."


def test_a_known_secret_of_several_lines_is_taken_out_of_the_traceback_of_a_group() -> None:
    secret = "-----BEGIN KEY-----\nfirst-line\nsecond-line\n-----END KEY-----"
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError(f"bad: {secret}")])])
    told = "".join(traceback.format_exception(group))
    assert "second-line" in told
    assert "second-line" not in knowing(secret).text(told)


def test_a_secret_that_contains_another_goes_whole() -> None:
    assert knowing("abcdef", "abcdef-longer").text("x abcdef-longer") == "x [redacted]"


def test_a_number_that_is_a_secret_goes() -> None:
    assert knowing("12345678").json('{"n":12345678,"m":1,"b":true}') == (
        '{"n":"[redacted]","m":1,"b":true}'
    )


def test_json_stays_json_where_a_secret_looks_like_its_syntax() -> None:
    redaction = knowing('"],["b"')
    assert json.loads(redaction.json('[["a"],["b"]]')) == [["a"], ["b"]]


def test_names_that_become_equal_stay_apart() -> None:
    text = Redaction(presets=["mail"]).json('{"a@b.io":1,"c@d.io":2,"e":3}')
    assert json.loads(text) == {"[redacted]": 1, "[redacted] 1": 2, "e": 3}
    text = Redaction(presets=["mail"]).json('{"[redacted] 2":1,"a@b.io":2,"c@d.io":3}')
    assert sorted(json.loads(text).values()) == [1, 2, 3]


def test_a_line_of_a_log_loses_the_fields_of_each_of_its_values() -> None:
    line = {"event": "sent", "pin": 1, "value": {"pin": 2, "a": {"b": 3}}}
    assert Redaction(["$..pin", "$.a.b"]).members(line) == {
        "event": "sent",
        "pin": "[redacted]",
        "value": {"pin": "[redacted]", "a": {"b": "[redacted]"}},
    }
    assert Redaction().members(line) is line


def test_of_a_reference_of_an_artifact_the_name_alone_goes() -> None:
    ids = {"artifact": "art_" + "0" * 26, "of": "job_" + "v" * 26, "size": 7654321}
    texts = {"name": "of 7654321", "content_type": "text/plain"}
    redaction = Redaction(patterns=[r"\d{6,}", r"\w{24,}"])
    assert redaction.value({"$artifact": {**ids, **texts}}) == {
        "$artifact": {**ids, **texts, "name": "of [redacted]"}
    }
    for odd in ({**texts}, {**ids, **texts, "note": ""}, {**ids, **texts, "of": "7654321"}):
        assert "7654321" not in str(redaction.value({**texts, **odd}))


def test_twice_is_as_once() -> None:
    redaction = Redaction(["$.a"], [r"order (?P<secret>\S+)"], ["card", "mail", "token"])
    redaction.secrets.add("secret-1")
    text = '{"a":1,"b":"order 7 of a@b.io, secret-1 password=abcdefgh","c@d.io":{},"e@f.io":2}'
    once = redaction.json(text)
    assert json.loads(once)["b"] == "order [redacted] of [redacted], [redacted] password=[redacted]"
    assert redaction.json(once) == once


def test_a_group_of_a_pattern_says_what_goes() -> None:
    assert Redaction(patterns=[r"IBAN (?P<secret>\w+)"]).text("IBAN CH93x, ok") == (
        "IBAN [redacted], ok"
    )
    assert Redaction(patterns=[r"IBAN \w+"]).text("IBAN CH93x, ok") == "[redacted], ok"


@pytest.mark.parametrize("pattern", ["(", "*", ".*", "x*", r"\w+", "(?P<a>x)(?P<a>y)"])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    assert fault(pattern) is not None


def test_a_pattern_that_looks_ahead_ends() -> None:
    assert fault(r"x(?=y)|(?=abc)") is None
    assert Redaction(patterns=[r"x(?=y)|(?=abc)"]).text("abc xy") == "abc [redacted]y"


def test_only_the_last_thousand_secrets_are_known() -> None:
    secrets = KnownSecrets()
    secrets.add("the-first")
    for number in range(999):
        secrets.add(f"secret-{number:04}")
    secrets.add("the-first")
    secrets.add("one-more")
    assert secrets.are_in("the-first")
    assert not secrets.are_in("secret-0000 ")
    assert all(len(form) >= LEAST_CHARS for form in secrets.forms)


@pytest.mark.parametrize("user", ["", "u", "us", "use", "user"])
@pytest.mark.parametrize("secret", ["secret", "secret-1", "secret-12", "a?b>c/d+e=f", "ü>ß?ö~"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_known_secret_is_taken_out_of_basic_authentication(
    user: str, secret: str, encode: Callable[[bytes], bytes]
) -> None:
    header = "Basic " + encode(f"{user}:{secret}:{user}".encode()).decode()
    found = knowing(secret).text(f"headers: {header}.")
    assert "[redacted]" in found
    kept = found.replace("[redacted]", "").removeprefix("headers: Basic ")
    assert len(kept) <= len(encode(f"{user}::{user}".encode())) + 4


def test_many_secrets_are_found_as_few_are() -> None:
    dice = random.Random(7)
    values = [f"key-{dice.getrandbits(48):x}" for _ in range(200)]
    many, alone = knowing(*values), [knowing(value) for value in values]
    assert len(many.secrets.forms) > 256
    for value, one in zip(values, alone, strict=True):
        text = f"a {value} {value[:7]} {quote(value)} {value}"
        assert many.text(text) == one.text(text)
        for cut in range(len(text) + 1):
            assert many.secrets.unfinished(text[:cut]) <= one.secrets.unfinished(text[:cut])
            assert many.secrets.outside(text, cut) == one.secrets.outside(text, cut)
    large = "x" * 65_530 + values[3] + "x" * 70_000 + values[4]
    assert many.text(large).count("[redacted]") == 2


def test_a_thousand_secrets_do_not_slow_down_each_text() -> None:
    rules = knowing(*(f"key-{number}-{'x' * 30}" for number in range(1_000)))
    text = json.dumps({"status": "fine", "text": "nothing to see here, go on " * 8})
    began = time.thread_time()
    for _ in range(100):
        rules.text(text)
        rules.unfinished("a token ")
    assert time.thread_time() - began < 0.05


@dataclass
class Customer:
    iban: str
    name: str = "Ann"


class Account(BaseModel):
    iban: str


@pytest.mark.parametrize(
    "value",
    [
        ({"iban": "CH93"},),
        Customer("CH93"),
        [Account(iban="CH93")],
        {"a": {1: Customer("CH93")}},
        {"iban": "CH93", "size": 2**70},
        {"iban": "CH93", ("a", "b"): 1},
        {"iban": "CH93", "text": "\ud800"},
        {"account": Account(iban="CH93"), "text": "\ud800"},
    ],
)
def test_a_log_line_loses_its_fields_whatever_holds_them(value: object) -> None:
    redaction = Redaction(["$..iban"])
    assert "CH93" not in repr(redaction.members({"event": "x", "value": value}))
    told = written(Line("info", "x", {"value": value}), redaction)
    assert "CH93" not in told
    assert json.loads(told)["message"] == "x"


def test_a_log_line_that_contains_itself_is_written_all_the_same() -> None:
    value: dict[str, object] = {"iban": "CH93"}
    value["self"] = value
    assert "CH93" not in written(Line("info", "x", value), Redaction(["$..iban"]))


@pytest.mark.parametrize("around", [str, str.encode])
def test_of_a_very_long_text_a_log_line_has_the_beginning(around: Callable[[str], object]) -> None:
    redaction = knowing("secret-value-1")
    value = around("secret-value-1 " + "x" * 262_120 + " secret-value-1" * 200_000)
    kept = str(redaction.members({"body": value})["body"])
    assert kept.startswith(("[redacted] x", "b'[redacted] x"))
    assert "secret" not in kept
    assert len(kept) < 262_144
    shown = json.loads(written(Line("info", str(value), {"body": str(value)}), redaction))
    assert shown["fields"].keys() == {"left_out"}
    assert "secret" not in shown["message"]
