"""Messages without what differs from one failure to the next, so that equal failures are equal.

Whoever changes what these functions return raises `_ROW_VERSION` of the read model, because each
dead letter's row names its cause.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

MOST_CHARS = 300
"""Of a normalized message."""
_READ_CHARS = 1_000
"""As much of a message is looked at: what follows is seldom the cause."""
_CLASS_CHARS = 100

_VARIABLE = re.compile(
    r"""
    (?P<text>(?<!\w)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)(?!\w))
  | (?P<url>(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s<>"'`]+)
  | (?P<mail>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
  | (?P<uuid>(?<![0-9A-Za-z])(?:[A-Za-z]{2,8}_)?
      [0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![0-9A-Za-z]))
  | (?P<time>(?<!\d)(?:
      \d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\ ?(?:Z|[+-]\d\d:?\d\d))?)?
      | \d\d:\d\d:\d\d(?:[.,]\d+)?)(?!\d))
  | (?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?!\w|\.\d)
      | (?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}(?!\w|:[0-9A-Fa-f]))
  | (?P<hex>(?<!\w)0[xX][0-9A-Fa-f]+
      | (?<!\w)(?=[A-Fa-f]*\d)(?=\d*[A-Fa-f])[0-9A-Fa-f]{8,}(?!\w))
  | (?P<id>(?<![\w-])(?=[A-Za-z_]*\d)[A-Za-z]{2,10}_[0-9A-Za-z]{8,}(?!\w)
      | (?<![\w+=-])(?=[A-Za-z+=_-]*\d)(?=[0-9+=_-]*[A-Za-z])[0-9A-Za-z+=_-]{24,}(?!\w))
  | (?P<number>(?:(?<![\w)])[+-])?\d+(?:[.,_]\d+)*(?:[eE][+-]?\d+)?)
    """,
    re.VERBOSE,
)
_REPEATED = re.compile(r"(<[a-z]+>)(?:(?:, ?| |: ?)\1)+")
_CLASS = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?=:|\s*$)")
_VARIABLE_PART = re.compile(r"(?!v\d{1,2}$).*\d.*|.{24,}", re.DOTALL)


def normalized(message: str) -> str:
    """Return a message with a placeholder such as `<number>` for each value in it.

    It has `MOST_CHARS` characters at most.
    """
    plain = " ".join(message[:_READ_CHARS].split())
    replaced = _VARIABLE.sub(_placeholder, plain)
    return _REPEATED.sub(r"\1 ...", replaced)[:MOST_CHARS]


def error_class(message: str, reason: str) -> str:
    """Return the class of the error that a message begins with, otherwise the reason."""
    found = _CLASS.match(message[:_READ_CHARS])
    return (found[1] if found else reason)[:_CLASS_CHARS]


def _placeholder(found: re.Match[str]) -> str:
    kind = found.lastgroup
    return _without_variables(found[0]) if kind == "url" else f"<{kind}>"


def _without_variables(url: str) -> str:
    """Return a URL with its host and the fixed parts of its path."""
    end = url[len(url.rstrip(".,;:!?)]}")) :]
    try:
        parts = urlsplit(url.removesuffix(end))
    except ValueError:
        return f"<url>{end}"
    host = parts.netloc.rpartition("@")[2]
    fixed = ("<id>" if _VARIABLE_PART.fullmatch(each) else each for each in parts.path.split("/"))
    query = "?<query>" if parts.query or parts.fragment else ""
    return f"{parts.scheme}://{host}{'/'.join(fixed)}{query}{end}"
