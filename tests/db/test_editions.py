"""Editions of documents: members that a release added are completed in older documents, at every depth."""

from typing import Annotated, Any

import msgspec
import pytest

from stoa.db.editions import Part, added, additions, edition_of, function_sql
from stoa.db.pool import Database


class Picture(msgspec.Struct):
    url: str
    state: Annotated[str, added(3)] = "ready"


class Maker(msgspec.Struct):
    name: str
    country: Annotated[str | None, added(2)] = None


class Thing(msgspec.Struct):
    id: int
    name: str
    maker: Maker | None
    pictures: Annotated[list[Picture], msgspec.Meta(max_length=5)]
    code: Annotated[str | None, added(2)] = None
    sizes: Annotated[list[int], added(4)] = msgspec.field(default_factory=list[int])


class Unfinished(msgspec.Struct):
    name: Annotated[str, added(2)]


PART = Part("thing_head", "head", Thing)


def test_the_edition_of_a_resource_is_that_of_its_newest_member() -> None:
    assert edition_of([PART]) == 4
    assert edition_of([Part("maker_head", "head", Maker)]) == 2
    assert [(each.path, each.default, each.edition) for each in additions(Thing)] == [
        (("maker", "country"), None, 2),
        (("pictures", "state"), "ready", 3),
        (("code",), None, 2),
        (("sizes",), [], 4),
    ]
    assert PART.defaults == {"maker.": {"country": None}, "pictures.": {"state": "ready"}, "code": None, "sizes": []}


def test_an_added_member_needs_a_default() -> None:
    with pytest.raises(TypeError, match="name was added and needs a default"):
        additions(Unfinished)


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"name": "A", "maker": None, "pictures": []},
        {"name": "A", "maker": None, "pictures": [], "code": None, "sizes": []},
    ),
    (
        {"name": 'B"}', "maker": {"name": "M"}, "pictures": [{"url": "u"}, {"url": "v", "state": "failed"}], "code": "7"},
        {
            "name": 'B"}',
            "maker": {"name": "M", "country": None},
            "pictures": [{"url": "u", "state": "ready"}, {"url": "v", "state": "failed"}],
            "code": "7",
            "sizes": [],
        },
    ),
    # A release after this one wrote it: what is there stays, at its position.
    (
        {"later": {"code": 1.50}, "name": "C", "maker": {"country": "BE", "name": "M"}, "pictures": [], "code": "8"},
        {"later": {"code": 1.50}, "name": "C", "maker": {"country": "BE", "name": "M"}, "pictures": [], "code": "8", "sizes": []},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "shown"), CASES)
async def test_an_older_document_is_completed_and_a_current_one_is_not_touched(
    db: Database, stored: dict[str, Any], shown: dict[str, Any]
) -> None:
    async with db.transaction() as connection:
        await connection.execute(function_sql(PART).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
        head = "," + msgspec.json.encode(stored).decode()[1:-1]
        for edition, expected in ((1, "," + msgspec.json.encode(shown).decode()[1:-1]), (4, head), (5, head)):
            [[completed]] = await connection.fetch("SELECT thing_head($1, $2::integer::smallint)", head, edition)
            assert completed == expected
        await connection.execute("DROP FUNCTION thing_head")
