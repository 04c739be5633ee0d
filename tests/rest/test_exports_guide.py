"""The examples of the guide on exports, sent to a store."""

import json
from dataclasses import replace
from typing import Any

from tests.docs.pages import GUIDES, blocks
from tests.support import notes
from tests.support.shops import Shop
from tests.support.stream_reader import Reader, write_notes

from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.settings import Settings

GUIDE = GUIDES / "exports.md"


def shown(language: str) -> list[str]:
    return [block.text for block in blocks(GUIDE, language)]


async def test_the_requests_of_the_guide_answer_as_shown(shop: Shop) -> None:
    await shop.add({"name": "Linen Shirt", "price": "59.00"}, {"name": "Café Mug", "price": "12.50"})
    answers: list[str] = []
    for request in shown("http"):
        first, header = request.splitlines()
        accept = {"accept": header.removeprefix("Accept: ")}
        answer = await shop.client.get(first.removeprefix("GET "), headers=accept)
        assert answer.status_code == 200, answer.text
        answers.append(answer.text)
    stream, file = answers
    *rows, end = [json.loads(line) for line in stream.splitlines()]
    *shown_rows, shown_end = [json.loads(line) for line in shown("ndjson")[0].splitlines()]
    assert [row | {"id": 0} for row in rows] == [row | {"id": 0} for row in shown_rows]
    assert end["meta"] | {"cursor": ""} == shown_end["meta"] | {"cursor": ""}
    header, *records = file.splitlines()
    assert header.startswith("id,name,price")
    assert len(records) == len(rows)


async def test_the_last_line_of_a_stream_that_fails_is_the_shown_problem(settings: Settings, shop: Shop) -> None:
    await write_notes(shop, 3_000)
    leaving = Application(settings, [*ENDPOINTS, *notes.routes.endpoints])
    reader = Reader(replace(shop, application=leaving))
    await reader.take()
    leaving.end_waiting()
    last: dict[str, Any] = (await reader.rest())[-1]
    example: dict[str, Any] = json.loads(shown("json")[0])
    assert last.keys() == example.keys()
    same = ("title", "status", "detail", "code", "retryable", "complete")
    assert {name: last[name] for name in same} == {name: example[name] for name in same}
    await leaving.close()
