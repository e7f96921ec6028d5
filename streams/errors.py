"""Every error Tidegate raises on purpose, as one tree.

    TidegateError
    ├── ConfigError            a setting, topology or schema file is wrong; it names the key
    ├── BrokerError            the embedded Kafka cannot start or was lost
    ├── KafkaUnavailable       no broker answers; the caller waits and logs it once
    │   └── RecordTooLarge     ... that takes a record, or a batch, of this size
    ├── PoisonRecord           one record can never be processed: dead letter, move on
    │   └── DecodeError        ... because its bytes are not what its schema says
    ├── StageFailed            a stage cannot go on and no record is to blame: nothing is committed
    ├── Fenced                 another instance took over: stop, write nothing more
    ├── ClockStepped           the broker's time cannot be believed: stop before it decides anything
    ├── StoreDamaged           local state cannot be trusted: wiped and rebuilt from its changelog
    ├── VaultError             a payload or secret cannot be sealed, found or opened
    │   └── Erased             ... because its tenant was erased, and its keys destroyed
    ├── SecretUnresolved       a reference to a secret finds none in this process
    ├── SignInRefused          a person who signs in, or has done so, is not let in
    ├── IssuerUnavailable      an issuer that people sign in with does not answer as it must
    ├── SignatureError         a request is not signed by its source's secret
    ├── Misfit                 a signed body does not give what its source's mapping says
    │   └── MalformedBody      ... because it cannot be read at all
    ├── MappingFailed          an outgoing message does not give what its endpoint's mapping selects
    ├── EgressDenied           an outgoing request may not be sent where it was to go
    ├── LeaseLost              the worker's lease ended: start nothing more
    └── JobError               what a handler raises to say how its attempt ended
        ├── TransientError     try again after the job type's backoff
        │   └── RetryAfter     try again after the given number of seconds
        ├── PermanentError     never try again: the job is `failed`
        │   ├── AmbiguousStep  ... because two calls of one name are in flight at once
        │   ├── WaitTimeout    ... what the handler waited for did not come in time
        │   ├── ApprovalExpired  ... nobody decided about an approval in time
        │   ├── ApprovalRejected  ... people did not approve an effect that needs it
        │   ├── PolicyDenied   ... a policy does not let an effect begin
    │   ├── WaitRefused    ... a wait cannot begin, or is another one than before
        │   ├── ChildConflict  ... the job asked for another job under the same key
        │   └── JobFailed      ... the job that the handler waited for did not succeed
        │       └── ChildFailed  ... which this job had asked for
        └── HistoryDiverged    the code asks for other steps than the job has: a person decides

A message says what is wrong, names the thing, and ends with what the reader does next.
"""

from __future__ import annotations

LONGEST_WAIT_SECONDS = 366 * 86_400
"""How far in the future a retry may be."""


class TidegateError(Exception):
    """Root of the tree; the command line prints it without a traceback and exits 1."""


class ConfigError(TidegateError):
    """A file or setting is wrong; exit code 2."""


def exit_code(error: TidegateError) -> int:
    """The exit code of a command that ends by an error."""
    return 2 if isinstance(error, ConfigError) else 1


class BrokerError(TidegateError):
    """The embedded Kafka cannot start, or ended."""


class KafkaUnavailable(TidegateError):
    """No broker of the bootstrap list answers."""


class RecordTooLarge(KafkaUnavailable):
    """The broker never takes a record of this size, or the batch in which it was sent."""


class PoisonRecord(TidegateError):
    """The record can never be processed; the runtime writes it to `dlq` and goes on."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class DecodeError(PoisonRecord):
    """Bytes that do not decode under the schema they claim."""

    def __init__(self, detail: str) -> None:
        super().__init__("undecodable", detail)


class StageFailed(TidegateError):
    """A stage ends because its store, its disk, its memory or its own code failed.

    Nothing of the step is committed: the next start repeats it.
    """


class Fenced(TidegateError):
    """Another process has taken this one's place in its group."""


class ClockStepped(TidegateError):
    """The broker's clock jumped, or this machine's stood still: timers and windows need both."""


class StoreDamaged(TidegateError):
    """Local state is broken, foreign or of another format; the changelog has all of it."""


class VaultError(TidegateError):
    """A payload or secret cannot be sealed, found or opened."""


class Erased(VaultError):
    """The tenant was erased: nothing opens its bodies, and no new ones are accepted."""

    def __init__(self, tenant_id: str) -> None:
        super().__init__(f"tenant {tenant_id} was erased: the keys of its bodies are destroyed")


class SecretUnresolved(TidegateError):
    """A reference to a secret finds none in this process's environment or files."""


class SignInRefused(TidegateError):
    """A sign-in or a session does not hold; `reason` is a stable name for answers and metrics.

    `person` is the id of whom the issuer vouches for; None if it vouches for nobody.
    """

    def __init__(self, reason: str, detail: str, *, person: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.person = person


class IssuerUnavailable(TidegateError):
    """An issuer gives no usable answer in time; the message names it and no secret."""


class SignatureError(TidegateError):
    """A request is not signed as its source's scheme demands, or the scheme cannot be used.

    `reason` is one word for metrics and logs; neither it nor the message contains a secret or
    any part of the request.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Misfit(TidegateError):
    """A correctly signed body does not fit its source; `reason` is one word for records.

    The message is for the sender and the operator and repeats nothing of the body.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class MalformedBody(Misfit):
    """A correctly signed body cannot be read; the message says what is wrong with it."""

    def __init__(self, detail: str) -> None:
        super().__init__("malformed_body", detail)


class MappingFailed(TidegateError):
    """An endpoint's mapping gives nothing for this message, and would give nothing each time.

    The message is for people and repeats nothing of the body.
    """


class EgressDenied(TidegateError, ValueError):
    """Tidegate does not send this request; `reason` is one word for records and metrics.

    The message is for the endpoint's owner, and repeats of a URL at most its host and port.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class LeaseLost(TidegateError):
    """The lease of this run is over; another run may have begun."""


class JobError(TidegateError):
    """The errors with which a handler says that its attempt failed."""


class TransientError(JobError):
    """The attempt failed, but a later one may succeed: it is retried with the type's backoff."""


class RetryAfter(TransientError):
    """Like `TransientError`, but the next attempt starts after `seconds` (>= 0)."""

    def __init__(self, seconds: float, message: str = "") -> None:
        if not 0 <= seconds <= LONGEST_WAIT_SECONDS:
            raise ValueError(f"RetryAfter needs 0 to {LONGEST_WAIT_SECONDS} seconds, got {seconds}")
        super().__init__(message or f"retry after {seconds:g} s")
        self.seconds = seconds


class PermanentError(JobError):
    """No attempt can succeed: the job ends `failed` and is listed in the dead letters."""


class AmbiguousStep(PermanentError):
    """Two calls of one name are in flight at once, so that a later run could confuse them."""


class HistoryDiverged(JobError):
    """The job has results for which the handler did not ask when it had to: its code has changed.

    The job waits in `needs_review`. `recorded` is the id of the first such result.
    """

    def __init__(self, message: str, recorded: str = "") -> None:
        super().__init__(message)
        self.recorded = recorded


class WaitTimeout(PermanentError):
    """What the handler waited for did not come in time; catch it to go on."""


class WaitRefused(PermanentError):
    """A wait cannot begin as it was asked, or another one began under its name."""


class ApprovalExpired(PermanentError):
    """Nobody decided about an approval in time; catch it to go on."""


class ApprovalRejected(PermanentError):
    """People did not approve an effect, which did not begin; catch it to go another way."""


class PolicyDenied(PermanentError):
    """A policy denies an effect, which did not begin; catch it to go another way."""


class JobFailed(PermanentError):
    """The job that the handler waited for ended without success."""


class ChildFailed(JobFailed):
    """A job that the handler asked for ended without success.

    `type` is its job type, and `error` what its last run raised, as `Type: message`.
    """

    def __init__(self, job_id: str, type: str, error: str) -> None:
        super().__init__(f"job {job_id} ({type}) did not succeed: {error}")
        self.job_id = job_id
        self.type = type
        self.error = error

    def __reduce__(self) -> tuple[type[ChildFailed], tuple[str, str, str]]:
        return ChildFailed, (self.job_id, self.type, self.error)


class ChildConflict(PermanentError):
    """A run asked for a job under a name or key under which it had asked for another one."""
