"""Why Kafka ended: turns its last log lines into one error with a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streams.broker.datadir import corrupt, disk_full
from streams.broker.ports import require_free
from streams.errors import BrokerError

_TAIL_BYTES = 256 * 1024
_SHOWN_LINES = 6
_ROUTINE = re.compile(r"^\[[^]]*\] (?:INFO|DEBUG|TRACE) .*\n?", re.M)
"""Lines that any start writes, of which one names a `LogDirFailureHandler`."""
_PROBLEM = re.compile(r"\b(ERROR|FATAL|Exception|Error|Caused by)\b")


@dataclass(frozen=True)
class Attempt:
    """One start of the server: its directory, its port, and its output."""

    root: Path
    port: int
    log: str


@dataclass(frozen=True)
class _Symptom:
    pattern: re.Pattern[str]
    explain: Callable[[Attempt, str], BrokerError]


def read_since(path: Path, offset: int) -> str:
    """Text appended to a log after `offset` bytes; all of it if the log was rolled since."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(offset if offset <= size else 0, size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def size_of(path: Path) -> int:
    """Bytes in the log now; 0 when it does not exist."""
    return path.stat().st_size if path.exists() else 0


def explain(attempt: Attempt, what: str) -> BrokerError:
    """The error for the cause found in the output; without a cause it shows the last lines."""
    telling = _ROUTINE.sub("", attempt.log)
    for symptom in _SYMPTOMS:
        found = symptom.pattern.search(telling)
        if found:
            return symptom.explain(attempt, _line_of(telling, found))
    return BrokerError(
        f"{what}; its log ends with:\n{relevant(attempt.log)}\n"
        f"see {attempt.root / 'kafka'} for server.log and jvm.log"
    )


def relevant(log: str) -> str:
    """The last lines that report a problem, otherwise simply the last lines."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("\tat ")]
    telling = [line for line in lines if _PROBLEM.search(line)]
    shown = (telling or lines)[-_SHOWN_LINES:]
    return "\n".join(f"  {line[:300]}" for line in shown) or "  (it wrote nothing)"


def _line_of(log: str, found: re.Match[str]) -> str:
    start = log.rfind("\n", 0, found.start()) + 1
    end = log.find("\n", found.end())
    return log[start : end if end >= 0 else None].strip()[:300]


def _port_taken(attempt: Attempt, line: str) -> BrokerError:
    try:
        require_free(attempt.port)
    except BrokerError as error:
        return error
    return BrokerError(f"a port of the broker was taken while it started ({line}); start it again")


def _locked(attempt: Attempt, line: str) -> BrokerError:
    return BrokerError(
        f"another Kafka uses {attempt.root / 'kafka'} ({line}); end it, or choose another "
        "--data-dir"
    )


def _memory(attempt: Attempt, line: str) -> BrokerError:
    return BrokerError(
        f"the broker's JVM has not enough memory ({line}): free some on this machine"
    )


def _forbidden(attempt: Attempt, line: str) -> BrokerError:
    return BrokerError(
        f"the broker may not read or write its files under {attempt.root} ({line}); "
        "make them the owner's: chown -R"
    )


def _bad_setting(attempt: Attempt, line: str) -> BrokerError:
    return BrokerError(f"Kafka refuses a setting that no command gives: {line}; report it")


# Order matters: a full disk also makes Kafka report storage errors, so the cause comes first.
_SYMPTOMS = (
    _Symptom(
        re.compile(r"No space left on device|Disk quota exceeded"),
        lambda attempt, line: disk_full(attempt.root, 0),
    ),
    _Symptom(re.compile(r"Address already in use"), _port_taken),
    _Symptom(re.compile(r"Failed to acquire lock on file"), _locked),
    _Symptom(
        re.compile(
            r"OutOfMemoryError|Could not reserve enough space|insufficient memory|"
            r"(Invalid|Too small).* heap size"
        ),
        _memory,
    ),
    _Symptom(re.compile(r"Permission denied|AccessDeniedException"), _forbidden),
    _Symptom(re.compile(r"ConfigException: .*"), _bad_setting),
    _Symptom(
        re.compile(
            r"InconsistentClusterId|CorruptRecord|CorruptSnapshot|Corrupt(ed)? index|"
            r"meta\.properties|[Ii]nvalid cluster\.id|KafkaStorageException|"
            r"LogDirFailure|log dirs? .*(failed|offline)|InvalidRecordException|"
            r"BufferUnderflowException|Error loading (metadata|snapshot)|quorum-state"
        ),
        lambda attempt, line: corrupt(attempt.root, line),
    ),
)
