"""Answers of receivers, read as they come in: whole, in pieces, too long, and wrong in every way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.webhooks.http.response import InvalidResponse, ResponseReader

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRetry-After:  7 \r\n\r\nok"
CHUNKED = b"HTTP/1.1 200\r\ntransfer-encoding: Chunked\r\n\r\n3;why=not\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nas long as it lasts"


def read(said: bytes) -> ResponseReader:
    reading = ResponseReader()
    assert reading.feed(said), "the answer is whole"
    return reading


@pytest.mark.parametrize(
    ("said", "status", "body", "reusable"),
    [
        (PLAIN, 200, b"ok", True),
        (CHUNKED, 200, b"abcde", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 304 Same\r\ncontent-length: 9\r\n\r\n", 304, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: a\r\n\r\n" + PLAIN, 200, b"ok", True),
        (b"HTTP/1.1 500 Broken\r\ncontent-length: 0\r\nconnection: keep-alive, Close\r\n\r\n", 500, b"", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, b"ok", False),
        # More than was asked for might be taken for the answer to the next request.
        (PLAIN + b"HTTP/1.1 200 OK\r\n", 200, b"ok", False),
    ],
)
def test_an_answer_is_read_to_its_end(said: bytes, status: int, body: bytes, *, reusable: bool) -> None:
    reading = read(said)
    assert (reading.status, reading.body, reading.reusable) == (status, body, reusable)


def test_headers_are_found_whatever_letters_they_come_in() -> None:
    assert read(PLAIN).all(b"retry-after") == [b"7"]


def test_without_a_length_the_end_of_the_connection_is_the_end_of_the_answer() -> None:
    reading = ResponseReader()
    assert not reading.feed(ENDLESS)
    assert reading.end()
    assert (reading.body, reading.reusable) == (b"as long as it lasts", False)


@pytest.mark.parametrize("said", [b"", PLAIN[:-1], PLAIN[:30], CHUNKED[:-2], CHUNKED[:-30]])
def test_an_answer_that_breaks_off_is_none(said: bytes) -> None:
    reading = ResponseReader()
    assert not reading.feed(said)
    assert not reading.end()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 5000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n400\r\n" + b"x" * 1024
        + b"\r\nfffff\r\n" + b"x" * 4000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000,
    ],
)  # fmt: skip
def test_of_a_long_body_the_beginning_is_enough(said: bytes) -> None:
    reading = read(said)
    assert (reading.body, reading.reusable) == (b"x" * 4096, False)


def test_very_many_small_chunks_are_read_like_few_large_ones() -> None:
    said = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 4000 + b"0\r\n\r\n"
    reading = read(said)
    assert (reading.body, reading.reusable) == (b"x" * 4000, True)


@pytest.mark.parametrize(
    "said",
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
        # Said twice or both ways, a length is one that another reader may take differently.
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
def test_what_is_no_answer_is_refused(said: bytes) -> None:
    with pytest.raises(InvalidResponse):
        ResponseReader().feed(said)


@given(st.sampled_from([PLAIN, CHUNKED, CHUNKED + b"more"]), st.lists(st.integers(0, 120), max_size=8))
def test_an_answer_is_the_same_however_it_is_cut(said: bytes, cuts: list[int]) -> None:
    whole, pieces, done, start = read(said), ResponseReader(), False, 0
    for end in [*sorted(min(cut, len(said)) for cut in cuts), len(said)]:
        done = done or pieces.feed(said[start:end])
        start = end
    assert done
    assert (pieces.status, pieces.fields, pieces.body) == (whole.status, whole.fields, whole.body)


@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from([b"", PLAIN[:17], CHUNKED[:44]]))
def test_noise_is_refused_or_read_but_never_breaks_anything(parts: list[bytes], begun: bytes) -> None:
    reading = ResponseReader()
    try:
        for part in [begun, *parts]:
            if reading.feed(part):
                break
    except InvalidResponse:
        return
    assert len(reading.body) <= 4096
