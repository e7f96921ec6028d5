"""`ctx.save` and `ctx.load`, and what stands in the place of a value too large for a record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from streams import user_json
from streams.artifacts.stand_in import MARK, is_stand_in, marked_off, meant
from streams.errors import PermanentError, TransientError
from streams.serde.ids import artifact_id
from streams.serde.link.places import ArtifactPlace, written
from streams.serde.sizes import MAX_ARTIFACT_BYTES, MAX_VALUE_BYTES
from streams.worker.handler.invoke import call
from streams.worker.handler.redacted import check_names, clean_json
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.values import check_size, from_json, is_label, refused, to_json

if TYPE_CHECKING:
    from streams.artifacts.reference import Reference
    from streams.artifacts.store import ArtifactStore

MOST_BYTES = MAX_ARTIFACT_BYTES
_JSON = "application/json"
_LONGEST_NAME, _LONGEST_TYPE = 255, 127

T = TypeVar("T")


class Artifacts:
    """The artifacts of one run. Without a store, there are none."""

    def __init__(self, session: RunSession, store: ArtifactStore | None) -> None:
        self._session = session
        self._store = store
        self._saved: set[str] = set()

    async def save(self, content: bytes, name: str, content_type: str) -> dict[str, Any]:
        """See `Context.save`."""
        if not isinstance(content, bytes | bytearray | memoryview):
            raise PermanentError(f"artifact {name!r}: save bytes, and not {type(content).__name__}")
        if not is_label(name, _LONGEST_NAME) or not is_label(content_type, _LONGEST_TYPE):
            raise PermanentError(
                f"artifact {str(name)[:_LONGEST_NAME]!r}: give a name of 1 to {_LONGEST_NAME} "
                f"characters, and a content type of 1 to {_LONGEST_TYPE}"
            )
        check_names(self._session.redaction, "the name or type of an artifact", name, content_type)
        if name in self._saved:
            raise PermanentError(f"artifact {name!r}: this run saved one: give another name")
        self._saved.add(name)
        try:
            found = await self._put(f"saved/{name}", bytes(content), name, content_type)
        except TransientError:
            self._saved.discard(name)  # nothing was saved
            raise
        return found.as_json()

    async def load(self, given: object) -> bytes:
        """See `Context.load`."""
        from streams.artifacts.reference import Reference, path_of
        from streams.artifacts.sealing import head_of, opened_with

        value = given[MARK] if isinstance(given, dict) and given.keys() == {MARK} else given
        reference = Reference.of_json(value)
        tenant_id = self._session.lease.tenant_id
        path = path_of(tenant_id, reference.of, reference.artifact)
        data = await self._asked(lambda store: store.get(path))
        place = written(ArtifactPlace(reference.artifact, reference.of))
        key = await self._session.requests.open(place, head_of(data)[0].key)
        return opened_with(from_json(key), tenant_id, reference, data)

    async def text(self, value: object, what: str, place: str) -> str:
        """The JSON text of a value, or, if that is too large, of what stands for it.

        Raises:
            PermanentError: it is not JSON, or too large for an artifact, too.
        """
        text = marked_off(await _json_of(value, what))
        if self._store is None or not MAX_VALUE_BYTES < len(text) <= MOST_BYTES:
            check_size(text, what)
            return clean_json(text.decode(), self._session.redaction, what)
        # The search in so much text may take seconds, and handlers may hang in the loop's own pool.
        large = await call(partial(self._session.redaction.json, text.decode()))
        found = await self._put(place, large.encode(), what[:_LONGEST_NAME], _JSON)
        return to_json({MARK: found.as_json()}, what)

    async def value(self, text: str | None) -> Any:
        """The value of what `text` gave."""
        value = from_json(text)
        if is_stand_in(value):
            value = user_json.read(await self.load(value))
        return meant(value)

    async def _put(self, place: str, content: bytes, name: str, content_type: str) -> Reference:
        from streams.artifacts.reference import Reference, path_of
        from streams.artifacts.sealing import new_secret, sealed

        if len(content) > MOST_BYTES:
            raise PermanentError(
                f"artifact {name!r} has {len(content):,} bytes, more than {MOST_BYTES:,}: store it "
                "elsewhere, and save where it lies"
            )
        lease = self._session.lease
        id_ = artifact_id(lease.job_id, lease.run_id, place)
        found = Reference(id_, lease.job_id, name, len(content), content_type)
        path = path_of(lease.tenant_id, lease.job_id, id_)
        self._check_store()
        secret = new_secret()
        place = written(ArtifactPlace(id_, lease.job_id))
        key = await self._session.requests.seal(place, to_json(secret, "the key of an artifact"))
        await self._asked(
            lambda store: store.put(path, sealed(secret, key, lease.tenant_id, found, content))
        )
        return found

    def _check_store(self) -> ArtifactStore:
        from streams.artifacts.store import SETTING

        self._session.check()
        if self._store is None:
            raise PermanentError(f"there is no place for artifacts: set {SETTING} for the workers")
        return self._store

    async def _asked(self, ask: Callable[[ArtifactStore], T]) -> T:
        """What the store answers, in a thread: it may take long, or hang."""
        from streams.artifacts.store import ArtifactGone, StoreUnavailable
        from streams.worker.handler.store_calls import asked

        store = self._check_store()
        with self._session.busy():
            try:
                return await asked(store, ask) if store.blocks else ask(store)
            except ArtifactGone as error:
                raise PermanentError(f"{error}: it was removed, or its tenant erased") from error
            except StoreUnavailable as error:
                raise TransientError(str(error)) from error


async def _json_of(value: object, what: str) -> bytes:
    """The JSON of a value; a large one is searched for NaN beside the event loop.

    Raises:
        PermanentError: it is not JSON.
    """
    with refused(what):
        text = user_json.unchecked(value)
        if len(text) > MAX_VALUE_BYTES:
            await call(partial(user_json.check, value, text))
        else:
            user_json.check(value, text)
    return text
