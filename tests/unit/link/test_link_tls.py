"""Both ends of the link with files of a private authority, which change while they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.certificates import Authority, authority
from support.conditions import PATIENCE_SECONDS
from support.host_names import HostNames
from support.link_services import serving
from support.linked_worker import LinkedWorker
from support.linked_workers import Partitions, boot

from streams import served_tls
from streams.link.listening import Listening
from streams.link.server import LinkServer
from streams.worker.link import addresses
from streams.worker.link.dialer import Dialer

NAME = "owners.test"


@dataclass
class Files:
    """What an operator mounts: the authority of a worker, and the certificate of an owner."""

    folder: Path
    authority: Authority

    @property
    def certificate(self) -> Path:
        return self.folder / "owner.pem"

    def issue(self, name: str = NAME, by: Authority | None = None) -> None:
        """Renew the owner's certificate at once."""
        (by or self.authority).issue(name, self.folder / "new.pem").replace(self.certificate)

    def another(self) -> Authority:
        return authority(self.folder / "another-ca.pem", "another authority")


@dataclass
class Ends:
    """A worker and an owner."""

    worker: LinkedWorker
    owner: LinkServer

    @property
    def why(self) -> str | None:
        """Why the owner cannot be reached."""
        return self.worker.link.readiness.why

    async def meet(self) -> None:
        await come(lambda: self.why is None)

    async def part(self) -> None:
        """Break the connection: the worker dials again."""
        for each in list(self.owner._connections):
            asyncio.run_coroutine_threadsafe(each._socket.close(), each._loop)
        await come(lambda: self.why is not None)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(served_tls, "LOOK_SECONDS", 0.01)
    HostNames(**{NAME: ["127.0.0.1"]}).install(monkeypatch)
    made = Files(tmp_path, authority(tmp_path / "ca.pem", "the authority"))
    made.issue()
    return made


async def come(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def linked(files: Files, ca_file: Path | None) -> AsyncIterator[Ends]:
    """Both ends; the worker believes the authorities of a file, or those of the system."""
    worker, place = LinkedWorker(boot=boot()), Listening("127.0.0.1", 0, files.certificate)
    with serving(Partitions(0).owner, place=place) as owner:
        places = addresses.addresses([f"wss://{NAME}:{owner.port}"])
        dialer = Dialer(places, lambda: "t", ca_file)
        dialer.start(worker.link, worker.failures.append)
        try:
            yield Ends(worker, owner)
        finally:
            await asyncio.to_thread(dialer.close)


async def test_a_certificate_of_a_private_authority_is_accepted_by_its_file(files: Files) -> None:
    async with linked(files, files.authority.file) as ends:
        await ends.meet()


async def test_a_certificate_of_an_authority_that_the_worker_does_not_know_is_named(
    files: Files,
) -> None:
    async with linked(files, None) as ends:
        await come(lambda: "certificate is not accepted: unable to get" in str(ends.why))
        assert "TIDEGATE_LINK_CA" in str(ends.why)


async def test_a_certificate_of_another_name_is_refused_until_it_is_renewed(files: Files) -> None:
    files.issue("other.test")
    async with linked(files, files.authority.file) as ends:
        await come(lambda: "Hostname mismatch" in str(ends.why))
        assert f"certificate is not valid for '{NAME}'" in str(ends.why)
        files.issue()
        await ends.meet()


async def test_both_ends_take_files_of_a_new_authority_while_they_run(files: Files) -> None:
    async with linked(files, files.authority.file) as ends:
        await ends.meet()
        files.issue(by=(new := files.another()))
        await ends.part()
        await come(lambda: "certificate is not accepted" in str(ends.why))  # of the new authority
        new.file.replace(files.authority.file)
        await ends.meet()


async def test_a_file_of_authorities_that_is_damaged_is_named_until_it_is_mended(
    files: Files,
) -> None:
    async with linked(files, files.authority.file) as ends:
        await ends.meet()
        kept = files.authority.file.read_text()
        files.authority.file.write_text("damaged")
        await ends.part()
        await come(lambda: "TIDEGATE_LINK_CA: cannot read" in str(ends.why))
        files.authority.file.write_text(kept)
        await ends.meet()
