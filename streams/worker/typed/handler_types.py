"""The types of a job type's input and result, as its handler's annotations declare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from streams.errors import ConfigError
from streams.worker.typed.annotations import UNREADABLE, Annotations, annotated, says_input

if TYPE_CHECKING:
    from streams.serde.records import Lease
    from streams.worker.handler.context import Context
    from streams.worker.typed.model import Model

_NO_NAMES: Mapping[str, object] = {}


class Models(NamedTuple):
    """What input and result are checked by; None for one that is not typed."""

    input: Model | None
    result: Model | None


class HandlerTypes:
    """Reads the annotations of one handler once, and checks its inputs and results.

    `what` names the job type in errors. `names` are the local names where the handler is defined,
    in which its types may be.
    """

    def __init__(
        self, function: Callable[..., Any], what: str, names: Mapping[str, object] = _NO_NAMES
    ) -> None:
        self._function = function
        self._what = what
        self._names = names
        self._models: Models | None = None

    def read_early(self) -> None:
        """Read the annotations at the declaration; leave those whose types are defined below it.

        Raises:
            ConfigError: a type cannot be one of JSON.
        """
        try:
            self._models = self._made(annotated(self._function, self._names))
            self._names = _NO_NAMES
        except UNREADABLE:
            self._models = None

    def read(self) -> Models:
        """What input and result are checked by.

        An annotation that only a type checker can read counts as none, unless the input is typed.

        Raises:
            ConfigError: a type cannot be one of JSON, or those of a typed input cannot be read.
        """
        if self._models is None:
            self._models = self._made_late()
        return self._models

    @property
    def input_schema(self) -> str | None:
        """The JSON schema of the input; None for any JSON."""
        model = self.read().input
        return None if model is None else model.schema

    @property
    def result_schema(self) -> str | None:
        """The JSON schema of the result; None for any JSON."""
        model = self.read().result
        return None if model is None else model.schema

    async def input_of(self, ctx: Context, lease: Lease) -> Any:
        """The input of a run as its type has it; that of an event's job is its body's document.

        Raises:
            PermanentError: it does not fit, or the body holds no JSON; the message names each
                field.
            TransientError: the body cannot be read now.
        """
        model = self.read().input
        if model is None:
            return ctx.input
        if lease.payload_ref is not None:
            return model.read_document(await ctx.json())
        return model.read(lease.input)

    def result_of(self, value: object) -> object:
        """What is kept of a handler's result.

        Raises:
            PermanentError: it does not fit its type; the message names each field.
        """
        model = self.read().result
        return value if model is None else model.dump(value)

    def _made_late(self) -> Models:
        try:
            return self._made(annotated(self._function, self._names))
        except UNREADABLE as error:
            if says_input(self._function):
                told = f"{self._what}: the types of its input and result cannot be read ({error})"
                raise ConfigError(f"{told}: define or import them where the worker runs") from error
            return Models(None, None)

    def _made(self, found: Annotations) -> Models:
        if found == (None, None):
            return Models(None, None)
        from streams.worker.typed.model import Model  # it loads pydantic: `import streams` is light

        given, kept = found
        return Models(
            None if given is None else Model(given, self._what, "input"),
            None if kept is None else Model(kept, self._what, "result"),
        )
