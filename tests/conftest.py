"""One Kafka for a test run, fresh topics per test.

`TIDEGATE_TEST_BOOTSTRAP` (with `TIDEGATE_KAFKA_<NAME>` for its security) uses a running cluster,
`TIDEGATE_TEST_KAFKA=testcontainers` a container for each worker; otherwise one embedded broker
serves all workers, started only when a test asks for `kafka`.
"""

from __future__ import annotations

import gc
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from hypothesis import HealthCheck, settings
from structlog.dev import ConsoleRenderer, plain_traceback
from support.collection import collect, let_go, let_hypothesis_collect
from support.kafka_under_test import KafkaUnderTest
from support.single_tests import SingleTests

if TYPE_CHECKING:
    from structlog.typing import ExcInfo
    from support.dedup_under_load import DedupUnderLoad
    from support.ingress_app import Edge
    from support.operator_api import OperatorApi

# No example is timed: a busy machine is no fault of what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

pytest_plugins = ["support.stacks", "support.link_suite.fixtures"]

NewTopic = Callable[..., str]

_SESSION_SECONDS = "4"
"""Of the processes under test, on embedded brokers; others may allow 6 seconds at the least."""

_TESTS_BETWEEN_COLLECTIONS = 50
_TESTS = count(1)


def pytest_configure() -> None:
    """Set what all processes under test get from this one.

    Ctrl-C reaches them, also where a background job's shell ignores it. Garbage is collected in
    `collect` alone: a thread of librdkafka that collects its own client aborts the process.
    """
    gc.disable()
    ConsoleRenderer.get_active().exception_formatter = _traceback
    signal.signal(signal.SIGINT, signal.default_int_handler)
    other = os.environ.get("TIDEGATE_TEST_KAFKA", "embedded") != "embedded"
    if not other and "TIDEGATE_TEST_BOOTSTRAP" not in os.environ:
        os.environ.setdefault("TIDEGATE_SESSION_SECONDS", _SESSION_SECONDS)


def _traceback(output: TextIO, exception: ExcInfo) -> None:
    """Print a traceback without the variables of its frames, which takes a tenth of a second."""
    plain_traceback(output, exception)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    """Let Hypothesis do what it does once, after its own plugin has started."""
    let_hypothesis_collect()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the tests themselves, half a million objects, out of every collection of garbage."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown() -> None:
    """Collect garbage now and then."""
    if next(_TESTS) % _TESTS_BETWEEN_COLLECTIONS == 0:
        collect()


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[object]) -> None:
    """Let go of what a module was given: its broker has ended, see `collect`."""
    if fixturedef.scope != "function":
        let_go(fixturedef.cached_result)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect what the last modules were given: the interpreter's own end would wait for it."""
    collect()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SingleTests | None:
    """With `--dist loadscope`, give the workers single tests."""
    return SingleTests(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaUnderTest]:
    """The run's Kafka."""
    bootstrap = os.environ.get("TIDEGATE_TEST_BOOTSTRAP")
    kind = os.environ.get("TIDEGATE_TEST_KAFKA", "embedded")
    if bootstrap:
        yield _existing(bootstrap)
    elif kind == "testcontainers":
        with _container() as found:
            yield found
    elif kind == "embedded":
        with _embedded(tmp_path_factory) as found:
            yield found
    else:
        pytest.fail(f"TIDEGATE_TEST_KAFKA={kind}: use 'embedded' or 'testcontainers'", False)


def _existing(bootstrap: str) -> KafkaUnderTest:
    from streams.settings import load_settings

    return KafkaUnderTest(bootstrap, load_settings().kafka)


@contextmanager
def _container() -> Iterator[KafkaUnderTest]:
    try:
        from testcontainers.community.kafka import KafkaContainer

        container = KafkaContainer().with_kraft()
        container.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
        container.with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
        container.with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
        container.start(timeout=120)
    except Exception as error:
        pytest.fail(
            f"TIDEGATE_TEST_KAFKA=testcontainers needs a running Docker: {error}; start it, or "
            "unset the variable to use the embedded broker",
            pytrace=False,
        )
    try:
        yield KafkaUnderTest(container.get_bootstrap_server())
    finally:
        container.stop()


@contextmanager
def _embedded(temporary: pytest.TempPathFactory) -> Iterator[KafkaUnderTest]:
    from support.shared_broker import shared_broker

    from streams.broker.embedded import EmbeddedKafka

    own = temporary.getbasetemp()
    of_the_run = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with shared_broker(of_the_run, EmbeddedKafka(temporary.mktemp("kafka"))) as bootstrap:
        yield KafkaUnderTest(bootstrap)


@pytest.fixture(autouse=True)
def end_of_clients(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let go of what a test was given while the broker of its module still runs.

    A client whose broker has gone may never end (librdkafka#4674), and pytest keeps the values of
    fixtures until all teardown is over.
    """
    yield
    if request.node.funcargs is not None:  # as it is where Ctrl-C ended the test
        request.node.funcargs.clear()


@pytest.fixture(autouse=True)
def end_of_topics(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the test's topics after all its processes have ended."""
    if "kafka" not in request.fixturenames:
        yield
        return
    from support.topics import delete_created

    kafka = request.getfixturevalue("kafka")
    yield
    delete_created(kafka)


@pytest.fixture
def new_topic(kafka: KafkaUnderTest) -> NewTopic:
    """Create a topic with a name no other test has: `new_topic(partitions=1, config={})`."""
    from confluent_kafka.cimpl import NewTopic as Topic
    from support.topics import create_topics

    from streams.kafka.admin import LeaderCachingAdmin

    admin = LeaderCachingAdmin(kafka.client())

    def create(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"test-{uuid.uuid4().hex[:12]}"
        topic = Topic(name, partitions, 1, config=dict(config or {}))
        create_topics(kafka.bootstrap, admin, [topic])
        return name

    return create


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    """An ingress with its log in memory; a module with other needs has an `edge` of its own."""
    from support.ingress_app import running

    async with running() as found:
        yield found


@pytest.fixture
def dedup(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[DedupUnderLoad]:
    """Dedup's topics and a flood on them; a module with other needs has a `dedup` of its own."""
    from support.dedup_under_load import DedupUnderLoad

    with DedupUnderLoad(kafka, tmp_path) as running:
        yield running


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorApi]:
    """The operator's API that commands ask."""
    from support.operator_api import running

    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", "a-token")
    monkeypatch.setenv("COLUMNS", "200")
    with running() as api:
        yield api
