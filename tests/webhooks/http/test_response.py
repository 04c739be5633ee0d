"""The parser for responses of receivers: complete, in pieces, too long, and malformed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.webhooks.http.connections import InvalidResponse, ResponseReader

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRetry-After:  7 \r\n\r\nok"
CHUNKED = b"HTTP/1.1 200\r\ntransfer-encoding: Chunked\r\n\r\n3;why=not\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nas long as it lasts"


def read(data: bytes) -> ResponseReader:
    reader = ResponseReader()
    assert reader.feed(data), "the response is complete"
    return reader


@pytest.mark.parametrize(
    ("data", "status", "body", "reusable"),
    [
        (PLAIN, 200, b"ok", True),
        (CHUNKED, 200, b"abcde", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 304 Same\r\ncontent-length: 9\r\n\r\n", 304, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: a\r\n\r\n" + PLAIN, 200, b"ok", True),
        (b"HTTP/1.1 500 Broken\r\ncontent-length: 0\r\nconnection: keep-alive, Close\r\n\r\n", 500, b"", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, b"ok", False),
        # Extra bytes could be mistaken for the response to the next request.
        (PLAIN + b"HTTP/1.1 200 OK\r\n", 200, b"ok", False),
    ],
)
def test_a_response_is_read_to_its_end(data: bytes, status: int, body: bytes, *, reusable: bool) -> None:
    reader = read(data)
    assert (reader.status, reader.body, reader.reusable) == (status, body, reusable)


def test_header_names_are_case_insensitive() -> None:
    assert read(PLAIN).all(b"retry-after") == [b"7"]


def test_a_response_without_a_length_ends_with_the_connection() -> None:
    reader = ResponseReader()
    assert not reader.feed(ENDLESS)
    assert reader.end()
    assert (reader.body, reader.reusable) == (b"as long as it lasts", False)


@pytest.mark.parametrize("data", [b"", PLAIN[:-1], PLAIN[:30], CHUNKED[:-2], CHUNKED[:-30]])
def test_a_truncated_response_is_incomplete(data: bytes) -> None:
    reader = ResponseReader()
    assert not reader.feed(data)
    assert not reader.end()


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 5000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n400\r\n" + b"x" * 1024
        + b"\r\nfffff\r\n" + b"x" * 4000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000,
    ],
)  # fmt: skip
def test_only_the_beginning_of_a_long_body_is_read(data: bytes) -> None:
    reader = read(data)
    assert (reader.body, reader.reusable) == (b"x" * 4096, False)


def test_a_body_of_many_small_chunks_is_read_completely() -> None:
    data = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 4000 + b"0\r\n\r\n"
    reader = read(data)
    assert (reader.body, reader.reusable) == (b"x" * 4000, True)


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail.example.com ESMTP\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 999 What\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nfolded: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nname : value\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nnul: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        # Another parser may interpret a repeated or contradictory length differently.
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n" + b"x" * 5000,
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"x" * 40_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000,
        b"HTTP/1.1 100 Go on\r\n\r\n" * 5000,
    ],
)
def test_a_malformed_response_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidResponse):
        ResponseReader().feed(data)


@given(st.sampled_from([PLAIN, CHUNKED, CHUNKED + b"more"]), st.lists(st.integers(0, 120), max_size=8))
def test_a_response_in_pieces_is_read_like_a_whole_one(data: bytes, cuts: list[int]) -> None:
    whole, pieces, done, start = read(data), ResponseReader(), False, 0
    for end in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        done = done or pieces.feed(data[start:end])
        start = end
    assert done
    assert (pieces.status, pieces.fields, pieces.body) == (whole.status, whole.fields, whole.body)


@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from([b"", PLAIN[:17], CHUNKED[:44]]))
def test_arbitrary_bytes_are_parsed_or_refused(parts: list[bytes], prefix: bytes) -> None:
    reader = ResponseReader()
    try:
        for part in [prefix, *parts]:
            if reader.feed(part):
                break
    except InvalidResponse:
        return
    assert len(reader.body) <= 4096
