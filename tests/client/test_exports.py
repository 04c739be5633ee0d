"""Exports: whole lists as streams, which resume after a broken connection and raise without their end."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from stoa_client import AsyncClient, Client, ConnectionFailed, Tombstone, codes

ROWS = [b'{"id":%d,"name":"Mug %d"}\n' % (n, n) for n in range(6)]


def checkpoint(cursor: str) -> bytes:
    return b'{"meta":{"count":1,"cursor":"%s"}}\n' % cursor.encode()


END = b'{"meta":{"total":6,"count":6,"cursor":"end","complete":true}}\n'


def failed(code: str, status: int, cursor: str, *, retryable: bool) -> bytes:
    text = (
        '{"type":"t","title":"t","status":%d,"detail":"d","code":"%s","retryable":%s,"complete":false,"cursor":"%s"}\n'
    )
    return (text % (status, code, str(retryable).lower(), cursor)).encode()


class Answers:
    """A service that answers each request for a stream with the next of these bodies; an exception breaks the connection."""

    def __init__(self, *bodies: Sequence[bytes | Exception]) -> None:
        self._bodies = iter(bodies)
        self.cursors: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/oauth/token"):
            return httpx.Response(200, json={"access_token": "stoa_at_x", "token_type": "Bearer", "expires_in": 3600})
        assert request.headers["prefer"] == "checkpoints"
        self.cursors.append(request.url.params.get("cursor"))
        parts = next(self._bodies)

        def content() -> Iterator[bytes]:
            for part in parts:
                if isinstance(part, Exception):
                    raise part
                yield part

        whole = b"".join(part for part in parts if isinstance(part, bytes))  # for any client
        breaks = any(isinstance(part, Exception) for part in parts)
        headers = {"content-type": "application/x-ndjson"}
        return httpx.Response(200, headers=headers, content=content() if breaks else whole)


BROKEN = httpx.RemoteProtocolError("the peer closed the connection")


def asking(answers: Answers) -> Client:
    http = httpx.Client(transport=httpx.MockTransport(answers))
    return Client("http://shop.example", client_id="a", client_secret="b", http=http)


def reading(answers: Answers) -> list[object]:
    """The ids of the products that a client reads."""
    with asking(answers) as client:
        return [each.id for each in client.products.export(fields=["id", "name"])]


def test_a_broken_connection_is_resumed_at_the_last_checkpoint() -> None:
    answers = Answers(
        [*ROWS[:2], checkpoint("two"), *ROWS[2:4], BROKEN], [*ROWS[2:4], checkpoint("four"), ROWS[4][:9], BROKEN], [*ROWS[4:], END]
    )  # fmt: skip
    assert reading(answers) == [0, 1, 2, 3, 4, 5]
    assert answers.cursors == [None, "two", "four"]


def test_a_stream_that_is_cut_in_its_last_line_is_resumed() -> None:
    answers = Answers([*ROWS[:2], checkpoint("two"), *ROWS[2:], END[:12]], [*ROWS[2:], END])
    assert reading(answers) == [0, 1, 2, 3, 4, 5]
    assert answers.cursors == [None, "two"]


def test_a_stream_that_ends_with_a_problem_is_resumed_at_its_cursor() -> None:
    answers = Answers([*ROWS[:3], failed("unavailable", 503, "three", retryable=True)], [*ROWS[3:], END])
    assert reading(answers) == [0, 1, 2, 3, 4, 5]
    assert answers.cursors == [None, "three"]


def test_a_stream_that_cannot_go_on_raises_its_problem() -> None:
    with pytest.raises(codes.AppNotInstalled):
        reading(Answers([*ROWS[:3], failed("app_not_installed", 403, "three", retryable=False)]))


def test_a_stream_without_its_end_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def proceed(_: float) -> None:
        pass

    monkeypatch.setattr("time.sleep", proceed)
    with pytest.raises(ConnectionFailed, match="without its last line"):
        reading(Answers(*[[*ROWS]] * 5))


def test_an_export_that_resumes_at_a_saved_cursor_loses_no_row() -> None:
    bodies = [*ROWS[:3], checkpoint("three"), *ROWS[3:], END]
    saved: list[str | None] = []
    with asking(Answers(bodies)) as client:
        export = client.products.export()
        for _ in export:
            saved.append(export.cursor)
    assert saved == [None, None, None, "three", "three", "three"], "the program may end after any row"
    assert export.cursor == "end"


def test_an_export_that_was_read_writes_a_complete_file(tmp_path: Path) -> None:
    (tmp_path / "backup.ndjson").write_bytes(b"the former backup")
    answers = Answers(*[[*ROWS[:3], checkpoint("three"), *ROWS[3:], END]] * 3)
    with asking(answers) as client:
        export = client.products.export(cursor="zero")
        assert [each.id for each in export] == [0, 1, 2, 3, 4, 5]
        assert next(iter(export)).id == 0
        size = export.to_file(tmp_path / "backup.ndjson")
    assert (tmp_path / "backup.ndjson").read_bytes() == b"".join(ROWS)
    assert (size, export.cursor, answers.cursors) == (len(b"".join(ROWS)), "end", ["zero"] * 3)


async def test_an_async_export_that_resumes_at_a_saved_cursor_loses_no_row() -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(Answers([*ROWS[:3], checkpoint("three"), *ROWS[3:], END])))
    async with AsyncClient("http://shop.example", client_id="a", client_secret="b", http=http) as client:
        export = client.products.export()
        assert [export.cursor async for _ in export] == [None, None, None, "three", "three", "three"]
    assert export.cursor == "end"


def stock(client: Client, count: int) -> None:
    for start in range(0, count, 100):
        items = [
            {"op": "create", "data": {"name": f"Mug {n}", "price": "1.00"}}
            for n in range(start, min(start + 100, count))
        ]
        client.request("POST", "/products/batch", body={"items": items})


def test_an_export_contains_every_resource(client: Client) -> None:
    stock(client, 300)
    export = client.products.export()
    assert [product.name for product in export] == [f"Mug {n}" for n in range(300)]
    assert export.total == 300
    client.products.create(name="Late", price="1.00")
    assert export.cursor is not None
    assert [product.name for product in client.products.export(cursor=export.cursor)] == ["Late"]
    first = next(iter(client.products.export(fields=["name"])))
    assert first.name == "Mug 0"


def test_deleted_resources_are_tombstones(client: Client) -> None:
    kept, deleted = (client.products.create(name=name, price="1.00") for name in ("Kept", "Deleted"))
    client.products.delete(deleted.id)
    found = list(client.products.export(include_deleted=True))
    assert [each.id for each in found] == [kept.id, deleted.id]
    assert isinstance(found[1], Tombstone)


def test_an_export_is_written_to_a_file(client: Client, tmp_path: Path) -> None:
    stock(client, 3)
    size = client.products.export().to_file(tmp_path / "products.ndjson")
    lines = (tmp_path / "products.ndjson").read_bytes().splitlines()
    assert (len(lines), size) == (3, sum(len(line) + 1 for line in lines))
    client.products.export(fields=["id", "name"]).to_file(tmp_path / "products.csv", format="csv")
    assert (tmp_path / "products.csv").read_text().startswith("id,name,")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["products.csv", "products.ndjson"]


async def test_an_export_is_read_with_an_event_loop(client: Client, async_client: AsyncClient, tmp_path: Path) -> None:
    stock(client, 3)
    assert [product.name async for product in async_client.products.export()] == ["Mug 0", "Mug 1", "Mug 2"]
    await async_client.products.export().to_file(tmp_path / "products.ndjson")
    assert (tmp_path / "products.ndjson").read_bytes().count(b"\n") == 3
