"""A call's error keeps nothing alive once it was handled."""

from __future__ import annotations

import gc
import weakref

import pytest

from streams.kafka.abandonable_call import AbandonableThread


class Producer:
    def commit(self) -> None:
        raise ValueError("aborted")


def test_a_producer_whose_call_failed_goes_without_a_collection() -> None:
    """It has threads and connections, and a stage that aborts takes a new one."""
    thread, producer = AbandonableThread(), Producer()
    gone = weakref.ref(producer)
    gc.disable()
    try:
        with pytest.raises(ValueError, match="aborted"):
            thread.call(producer.commit, lambda: False)
        thread.call(lambda: None, lambda: False)  # the thread lets go of the call before
        del producer
        assert gone() is None
    finally:
        gc.enable()
        thread.leave()
