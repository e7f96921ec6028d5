"""Whatever a receiver does, a request ends in time, with a bounded answer and a class."""

from __future__ import annotations

import asyncio
import encodings
import gzip
import socket
import threading

import pytest
from aiohttp.client_proto import ResponseHandler
from support.conditions import PATIENCE_SECONDS
from support.posting import BODY, loopback, to
from support.receiver import (
    OK,
    Answer,
    answering,
    closing,
    dripping,
    flooding,
    hanging,
    receiving,
    resetting,
)

from streams.delivery.egress.bounded_protocol import BoundedProtocol
from streams.delivery.egress.post import Outcome, Post
from streams.delivery.egress.poster import Poster

HEAD = b"HTTP/1.1 200 OK\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MEBIBYTE = b"x" * 1024 * 1024
INTERIM = b"HTTP/1.1 102 P\r\n\r\n"
SOON = 0.2
"""Seconds of a request that is meant to time out."""


async def outcome(answer: Answer, *, timeout: float = 5.0) -> Outcome:
    async with receiving(answer) as receiver, Poster(loopback()) as poster:
        return await poster.post(to(receiver.url, timeout=timeout))


async def test_an_answer_is_told_as_it_came() -> None:
    async with receiving(answering(OK)) as receiver, Poster(loopback()) as poster:
        got = await poster.post(to(receiver.url, headers={"webhook-id": "m1"}))
    assert (got.status, got.error, got.excerpt, got.address) == (200, None, "ok", "127.0.0.1")
    assert got.detail == "127.0.0.1 answered 200"
    (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == BODY
    assert head.startswith(b"POST /hook HTTP/1.1\r\n")
    assert b"Accept-Encoding: identity" in head
    assert b"User-Agent: Tidegate" in head
    assert b"webhook-id: m1" in head
    assert f"Host: 127.0.0.1:{receiver.port}".encode() in head


@pytest.mark.parametrize("status", [204, 400, 410, 429, 500, 503])
async def test_each_status_is_an_answer(status: int) -> None:
    got = await outcome(answering(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status))
    assert (got.status, got.error) == (status, None)


async def test_a_success_whose_body_says_error_is_a_success() -> None:
    got = await outcome(closing(HEAD + b"\r\n" + b'{"error":"no"}'))
    assert (got.status, got.error, got.excerpt) == (200, None, '{"error":"no"}')


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200", HEAD + b"X-A: b\r\n"])
async def test_a_receiver_that_hangs_before_the_head_ends_is_cut(sent: bytes) -> None:
    got = await outcome(hanging(sent), timeout=SOON)
    assert (got.status, got.error, got.address) == (None, "timeout", "127.0.0.1")
    assert got.duration_ms >= SOON * 1000 - 10


async def test_a_process_that_stood_still_blames_no_receiver() -> None:
    """Its answer may be there, but the event loop finds the time to be over first."""
    until = asyncio.get_running_loop().time() + SOON + 1

    async def stand_still(writer: asyncio.StreamWriter) -> None:
        while asyncio.get_running_loop().time() < until:
            pass
        await asyncio.Event().wait()

    got = await outcome(stand_still, timeout=SOON)
    assert (got.status, got.error) == (None, "stalled")


async def test_a_head_of_one_byte_at_a_time_is_cut() -> None:
    got = await outcome(dripping(HEAD + b"X-A: ", 0.01), timeout=SOON)
    assert (got.status, got.error) == (None, "timeout")


@pytest.mark.parametrize(
    "answer",
    [
        hanging(HEAD + b"Content-Length: 9\r\n\r\nbegun"),
        dripping(HEAD + b"Content-Length: 9999\r\n\r\nbegun", 0.01),
        closing(HEAD + b"Content-Length: 9\r\n\r\nbegun"),
    ],
    ids=["hangs", "drips", "ends early"],
)
async def test_a_status_counts_though_its_body_does_not_end(answer: Answer) -> None:
    got = await outcome(answer, timeout=SOON)
    assert (got.status, got.error) == (200, None)
    assert got.excerpt.startswith("begun")
    assert got.detail == "127.0.0.1 answered 200, but its body did not end"


async def test_a_connection_that_ends_with_rst_is_a_reset() -> None:
    got = await outcome(resetting)
    assert (got.status, got.error) == (None, "reset")


async def test_a_connection_that_ends_before_the_answer_is_closed() -> None:
    got = await outcome(closing(b""))
    assert (got.status, got.error) == (None, "closed")


async def test_nobody_listens_is_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with Poster(loopback()) as poster:
            got = await poster.post(to(f"http://127.0.0.1:{bound.getsockname()[1]}/"))
    assert (got.error, got.address) == ("refused", "127.0.0.1")


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        HEAD + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n",
        HEAD + b"X-Many: x\r\n" * 10_000 + b"\r\n",
        HEAD + b"x" * 100_000,
    ],
    ids=[
        "ssh",
        "status",
        "digits",
        "two lengths",
        "long field",
        "many fields",
        "no end",
    ],
)
async def test_what_is_no_http_answer_or_has_a_flood_of_head_is_a_protocol_error(
    raw: bytes,
) -> None:
    got = await outcome(closing(raw))
    assert (got.status, got.error) == (None, "protocol")
    assert got.detail.startswith("127.0.0.1 sent no HTTP answer that can be read")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (NO_CONTENT + b"\r\na body", 204),
        (NO_CONTENT + b"Content-Length: 6\r\n\r\na body", 204),
        (NO_CONTENT + b"Transfer-Encoding: chunked\r\n\r\n6\r\na body\r\n0\r\n\r\n", 204),
        (NO_CONTENT.replace(b"\r", b"") + b"\na body", 204),
        (INTERIM + HEAD + b"Content-Length: 0\r\n\r\na body", 200),
        (HEAD + b"Content-Length: 2\r\n\r\na body", 200),
        (HEAD + b"Content-Length: 0\r\n\r\n" + INTERIM * 14_000, 200),
        (CHUNKED + b"zz\r\n", 200),
        (CHUNKED + b"f" * 30 + b"\r\n", 200),
        (CHUNKED + b"0\r\nno field\r\n\r\n", 200),
        (b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 503),
    ],
)
@pytest.mark.parametrize("read_at_once", [1, 2, 3, 256_000])
async def test_a_head_counts_at_once_whatever_follows_it(
    raw: bytes, status: int, read_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = BoundedProtocol.data_received

    def in_pieces(self: BoundedProtocol, data: bytes) -> None:
        for at in range(0, len(data), read_at_once):
            if self.is_connected():
                parse(self, data[at : at + read_at_once])

    monkeypatch.setattr(BoundedProtocol, "data_received", in_pieces)
    got = await outcome(answering(raw), timeout=PATIENCE_SECONDS)
    assert (got.status, got.error) == (status, None)
    assert got.duration_ms < PATIENCE_SECONDS * 1000


async def test_a_head_counts_though_its_connection_is_reset_in_the_body() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 9\r\n\r\nbegun")
        await writer.drain()
        await resetting(writer)

    got = await outcome(answer)
    assert (got.status, got.error, got.excerpt) == (200, None, "begun")


async def test_interim_answers_before_the_final_one_are_passed_over_each_time() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * 3
    async with receiving(answering(hints + OK)) as receiver, Poster(loopback()) as poster:
        for _ in range(5):
            got = await poster.post(to(receiver.url))
            assert (got.status, got.excerpt) == (200, "ok")
    assert receiver.connections == 1


async def test_interim_answers_without_end_are_a_protocol_error_at_once() -> None:
    got = await outcome(flooding(b"", INTERIM * 14_000, 1_000_000), timeout=PATIENCE_SECONDS)
    assert (got.status, got.error) == (None, "protocol")
    assert got.duration_ms < PATIENCE_SECONDS * 1000


async def test_what_a_flood_brought_in_one_read_is_not_parsed_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed, parse = list[int](), ResponseHandler.data_received

    def noted(self: ResponseHandler, data: bytes) -> None:
        parsed.append(len(data))
        parse(self, data)

    monkeypatch.setattr(ResponseHandler, "data_received", noted)
    got = await outcome(answering(INTERIM * 14_000))
    assert (got.error, sum(parsed)) == ("protocol", 12 * len(INTERIM))


async def test_answers_to_nothing_end_the_connection() -> None:
    idle, ended, written = asyncio.Event(), asyncio.Event(), list[int]()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await idle.wait()
        try:
            for piece in range(1_000):
                writer.write(OK * 2_000)
                await writer.drain()
                written.append(piece)
        finally:
            ended.set()

    async with receiving(answer) as receiver, Poster(loopback()) as poster:
        assert (await poster.post(to(receiver.url))).status == 200
        idle.set()
        async with asyncio.timeout(20):
            await ended.wait()
    assert len(written) < 100, "what the kernel buffers, not what was sent"


@pytest.mark.parametrize("stray", [OK, INTERIM, HEAD, b"H"])
async def test_what_comes_on_an_idle_connection_is_not_the_answer_to_the_next_request(
    stray: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, noted = BoundedProtocol.data_received, asyncio.Queue[bytes]()

    def note(self: BoundedProtocol, data: bytes) -> None:
        read(self, data)
        if data:
            noted.put_nowait(data)

    async def answer(writer: asyncio.StreamWriter) -> None:
        if len(receiver.requests) > 1:
            writer.write(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(OK)
        await idle.wait()
        writer.write(stray)

    monkeypatch.setattr(BoundedProtocol, "data_received", note)
    idle = asyncio.Event()
    async with receiving(answer) as receiver, Poster(loopback()) as poster:
        assert (await poster.post(to(receiver.url))).status == 200
        await noted.get()
        idle.set()
        async with asyncio.timeout(5):
            assert await noted.get() == stray
        assert (await poster.post(to(receiver.url))).status == 500
    assert (len(receiver.requests), receiver.connections) == (2, 2)


async def test_a_hundred_megabytes_of_answer_are_not_read() -> None:
    written: list[int] = []

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 104857600\r\n\r\n")
        for _ in range(100):
            writer.write(MEBIBYTE)
            await writer.drain()
            written.append(1)

    got = await outcome(flood)
    assert (got.status, got.error, got.excerpt) == (200, None, "x" * 1024)
    assert len(written) < 20, "what the kernel buffers, not what was sent"


async def test_a_long_answer_costs_its_connection() -> None:
    flood = flooding(HEAD + b"Content-Length: 1048576\r\n\r\n", MEBIBYTE, 1)
    async with receiving(flood) as receiver, Poster(loopback()) as poster:
        for _ in range(2):
            assert (await poster.post(to(receiver.url))).status == 200
    assert receiver.connections == 2


async def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(MEBIBYTE * 10)
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    got = await outcome(answering(head + bomb))
    assert (got.status, got.excerpt) == (200, f"({len(bomb)} encoded bytes)")


@pytest.mark.parametrize(
    "content_type",
    [
        b"text/plain; charset*",
        b"text/plain; charset*=x",
        b"(" * 6_000,
        b"a/b; " + b"(" * 6_000,
        b";" * 8_000,
        b"; charset=" * 700,
        b"\xff\xfe",
        b'a/b; charset="',
        b"",
    ],
    ids=range(9),
)
async def test_no_content_type_makes_a_success_a_failure(content_type: bytes) -> None:
    head = HEAD + b"Content-Type: " + content_type
    for body in (b"", b"ok"):
        got = await outcome(answering(head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body))
        assert (got.status, got.error, got.excerpt) == (200, None, body.decode())


async def test_an_answer_is_decoded_as_its_charset_says() -> None:
    head = b'Content-Type: text/plain; a=b ; Charset="ISO-8859-1"\r\nContent-Length: 4\r\n\r\n'
    assert (await outcome(answering(HEAD + head + b"gr\xfcn"))).excerpt == "grün"


async def test_nothing_is_remembered_of_a_charset_that_nobody_knows() -> None:
    head = b"Content-Type: text/plain; charset=x-nobody-4711\r\nContent-Length: 2\r\n\r\n"
    assert (await outcome(answering(HEAD + head + b"ok"))).excerpt == "ok"
    assert not [name for name in vars(encodings)["_cache"] if "4711" in name]


async def test_a_redirect_is_a_failure_and_is_not_followed() -> None:
    async with receiving(answering(OK)) as inside, Poster(loopback()) as poster:
        redirect = f"HTTP/1.1 302 Found\r\nLocation: {inside.url}\r\nContent-Length: 0\r\n\r\n"
        async with receiving(answering(redirect.encode())) as receiver:
            got = await poster.post(to(receiver.url))
    assert (got.status, got.error) == (302, "redirect")
    assert (len(receiver.requests), inside.connections) == (1, 0)


async def test_http_1_0_is_understood() -> None:
    got = await outcome(closing(b"HTTP/1.0 200 OK\r\n\r\nfine"))
    assert (got.status, got.excerpt) == (200, "fine")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(b"120", 120.0), (b"31536000", 86_400.0), (b"-5", None), (b"soon", None)],
)
async def test_the_receiver_s_wish_to_be_left_alone_is_bounded(
    header: bytes, seconds: float | None
) -> None:
    raw = b"HTTP/1.1 503 X\r\nRetry-After: " + header + b"\r\nContent-Length: 0\r\n\r\n"
    got = await outcome(answering(raw))
    assert (got.status, got.retry_after_seconds) == (503, seconds)


async def test_secrets_that_were_sent_are_not_in_the_excerpt() -> None:
    echo = b"got Bearer tok-4711 and key s3cret-key, whsec_QUJDREVG"
    answer = closing(HEAD + b"\r\n" + echo)
    async with receiving(answer) as receiver, Poster(loopback()) as poster:
        got = await poster.post(to(receiver.url), redact=["s3cret-key", "Bearer tok-4711"])
    assert got.excerpt == "got [redacted] and key [redacted], [redacted]"


async def test_a_cancelled_request_closes_its_connection() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(BODY)
        begun.set()
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Poster(loopback()) as poster:
            task = asyncio.create_task(poster.post(to(f"http://127.0.0.1:{port}/")))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(5):
                await ended.wait()


async def test_a_connection_is_used_again() -> None:
    async with receiving(answering(OK)) as receiver, Poster(loopback()) as poster:
        for _ in range(3):
            assert (await poster.post(to(receiver.url))).address == "127.0.0.1"
    assert (len(receiver.requests), receiver.connections) == (3, 1)


async def test_beyond_a_bound_connections_serve_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streams.delivery.egress.connector._MOST_KEPT", 0)
    async with receiving(answering(OK)) as receiver, Poster(loopback()) as poster:
        for _ in range(2):
            assert (await poster.post(to(receiver.url))).status == 200
    assert receiver.connections == 2


@pytest.mark.parametrize("fault", [closing(b""), resetting], ids=["closed", "reset"])
async def test_a_request_that_a_used_connection_lost_is_sent_again_on_a_new_one(
    fault: Answer,
) -> None:
    async def once_each(writer: asyncio.StreamWriter) -> None:
        await (answering(OK) if len(receiver.requests) % 2 else fault)(writer)

    async with receiving(once_each) as receiver, Poster(loopback()) as poster:
        got = [await poster.post(to(receiver.url)) for _ in range(3)]
    assert {(each.status, each.error) for each in got} == {(200, None)}
    assert (len(receiver.requests), receiver.connections) == (5, 3)


async def test_a_request_is_sent_again_once_and_past_all_used_connections() -> None:
    answered, both = 0, asyncio.Event()

    async def once_each(writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        if answered < 2:
            answered += 1
            if answered == 2:
                both.set()
            await both.wait()
            writer.write(OK)
        else:
            writer.close()

    async with receiving(once_each) as receiver, Poster(loopback()) as poster:
        first = await asyncio.gather(*(poster.post(to(receiver.url)) for _ in range(2)))
        last = await poster.post(to(receiver.url))
    assert [each.status for each in first] == [200, 200]
    assert last.error == "closed"
    assert (len(receiver.requests), receiver.connections) == (4, 3)


async def test_a_large_request_is_sent_again_whole() -> None:
    async def once_each(writer: asyncio.StreamWriter) -> None:
        await (answering(OK) if len(receiver.requests) != 2 else closing(b""))(writer)

    body = b"z" * 3_000_000
    async with receiving(once_each) as receiver, Poster(loopback()) as poster:
        got = [await poster.post(Post("acme", receiver.url, (), body, 5.0)) for _ in range(2)]
    assert [each.status for each in got] == [200, 200]
    assert [len(request.partition(b"\r\n\r\n")[2]) for request in receiver.requests] == [
        3_000_000
    ] * 3


@pytest.mark.parametrize("begun", [b"H", HEAD, b"HTTP/1.1 103 E\r\n\r\n"])
async def test_a_request_whose_answer_had_begun_is_not_sent_again(begun: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        await (answering(OK) if len(receiver.requests) == 1 else closing(begun))(writer)

    async with receiving(answer) as receiver, Poster(loopback()) as poster:
        first = await poster.post(to(receiver.url))
        second = await poster.post(to(receiver.url))
    assert (first.status, second.status, second.error) == (200, None, "closed")
    assert (len(receiver.requests), receiver.connections) == (2, 1)


async def test_a_request_that_a_new_connection_lost_is_not_sent_again() -> None:
    async with receiving(closing(b"")) as receiver, Poster(loopback()) as poster:
        assert (await poster.post(to(receiver.url))).error == "closed"
    assert len(receiver.requests) == 1


async def test_a_connection_that_the_receiver_closed_is_replaced_before_anything_is_sent() -> None:
    """The event loop has not heard of the end: only the socket knows."""
    close, closed = threading.Event(), threading.Event()

    def serve() -> None:
        first = answered(listener)
        close.wait(5)
        first.close()
        closed.set()
        answered(listener).close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        async with Poster(loopback()) as poster:
            assert (await poster.post(to(url))).status == 200
            close.set()
            assert closed.wait(5)
            assert (await poster.post(to(url))).status == 200


def answered(listener: socket.socket) -> socket.socket:
    """The next connection, on which one request was answered."""
    connection, _ = listener.accept()
    while BODY not in connection.recv(65_536):
        pass
    connection.sendall(OK)
    return connection


async def in_turn(
    poster: Poster, post: Post, endpoint_id: str = "crm", tenant_id: str = "acme"
) -> Outcome:
    async with poster.turn(post.url, tenant_id, endpoint_id):
        return await poster.post(post)


async def test_endpoints_of_one_host_take_turns() -> None:
    done: list[str] = []

    async def one(poster: Poster, url: str, sharer: str) -> None:
        await in_turn(poster, to(url, timeout=SOON), sharer)
        done.append(sharer)

    async with (
        receiving(answering(OK)) as receiver,
        Poster(loopback(connections_per_host=1)) as poster,
    ):
        sharers = ["busy"] * 20 + ["other"]
        await asyncio.gather(*(one(poster, receiver.url, sharer) for sharer in sharers))
    assert done.index("other") < 4


async def test_many_endpoints_of_one_tenant_at_a_host_hold_up_no_other_tenant() -> None:
    done: list[str] = []

    async def one(poster: Poster, url: str, tenant_id: str, endpoint_id: str) -> None:
        await in_turn(poster, to(url, timeout=SOON), endpoint_id, tenant_id)
        done.append(tenant_id)

    async with (
        receiving(answering(OK)) as receiver,
        Poster(loopback(connections_per_host=1)) as poster,
    ):
        places = [("many", f"crm{n}") for n in range(20)] + [("other", "crm")]
        await asyncio.gather(*(one(poster, receiver.url, *place) for place in places))
    assert done.index("other") < 4


async def test_a_request_that_is_given_up_while_it_waits_leaves_its_turn() -> None:
    async with (
        receiving(hanging(b"")) as bad,
        Poster(loopback(connections_per_host=1)) as poster,
    ):
        first = asyncio.create_task(in_turn(poster, to(bad.url, timeout=SOON)))
        await asyncio.sleep(0)
        second = asyncio.create_task(in_turn(poster, to(bad.url, timeout=SOON)))
        await asyncio.sleep(0)
        second.cancel()
        assert (await first).error == "timeout"
        assert (await in_turn(poster, to(bad.url, timeout=SOON))).error == "timeout"


async def test_requests_to_a_host_share_its_connections_and_wait_outside_their_time() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.write(OK)

    async with (
        receiving(slow) as receiver,
        Poster(loopback(connections_per_host=1)) as poster,
    ):
        posts = [in_turn(poster, to(receiver.url, timeout=1.0)) for _ in range(6)]
        got = await asyncio.gather(*posts)
    assert [(each.status, each.error) for each in got] == [(200, None)] * 6
    assert receiver.connections == 1


async def test_a_hanging_host_holds_up_no_other() -> None:
    async with (
        receiving(hanging(b"")) as bad,
        receiving(answering(OK)) as good,
        Poster(loopback(connections_per_host=1)) as poster,
    ):
        hung = [asyncio.create_task(in_turn(poster, to(bad.url, timeout=SOON))) for _ in range(2)]
        got = await in_turn(poster, to(good.url.replace("127.0.0.1", "a.localhost")))
        assert got.status == 200
        assert not any(task.done() for task in hung)
        assert [each.error for each in await asyncio.gather(*hung)] == ["timeout", "timeout"]


async def test_a_large_body_arrives_whole() -> None:
    body = b"z" * 3_000_000
    async with receiving(answering(OK)) as receiver, Poster(loopback()) as poster:
        got = await poster.post(Post("acme", receiver.url, (), body, 5.0))
    assert got.status == 200
    assert receiver.requests[0].endswith(b"\r\n\r\n" + body)
