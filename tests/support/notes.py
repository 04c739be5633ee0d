"""A small slice that exists only in tests, and uses every feature of the kit."""

from datetime import date
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa import money
from stoa.db.documents import TOMBSTONE
from stoa.db.listing import Listing
from stoa.db.query import Command, Query
from stoa.rest.call import Call
from stoa.rest.checks import Money
from stoa.rest.endpoint import Created, Deprecation, NoContent, One, Page, Routes
from stoa.rest.filters import Choices, Flag, Ids, Moment, MoneyRange, Text
from stoa.rest.lists import ListOf, ListQuery, list_page
from stoa.rest.patch import changes_between, check_echoes, merge
from stoa.rest.problems import NotFound, Refusal

SCHEMA = """
CREATE SEQUENCE note_ids;
CREATE TABLE notes (
    store_id bigint NOT NULL, id bigint NOT NULL DEFAULT nextval('note_ids'), title text NOT NULL, price bigint NOT NULL,
    color text NOT NULL, pinned boolean NOT NULL, body text NOT NULL, version integer NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT now(), deleted_at timestamptz,
    CONSTRAINT notes_pkey PRIMARY KEY (store_id, id));
CREATE UNIQUE INDEX notes_title_key ON notes (store_id, title) WHERE deleted_at IS NULL;
COMMENT ON TABLE notes IS 'store';
"""

Title = Annotated[str, Meta(min_length=1, max_length=80)]


class Detail(msgspec.Struct, forbid_unknown_fields=True):
    author: Annotated[str, Meta(max_length=20)] | None = None
    pages: Annotated[int, Meta(ge=1, le=10)] | None = None


class Note(msgspec.Struct):
    id: int
    title: str
    price: Money
    color: str
    pinned: bool
    detail: Detail
    labels: list[str]
    version: int


class NewNote(msgspec.Struct, forbid_unknown_fields=True):
    title: Title
    price: Money
    color: str = "red"
    pinned: bool = False
    detail: Detail | None = None
    labels: Annotated[list[Annotated[str, Meta(max_length=10)]], Meta(max_length=5)] = []


class NoteChanges(msgspec.Struct, forbid_unknown_fields=True):
    title: Title | UnsetType = UNSET
    price: Money | UnsetType = UNSET
    color: str | UnsetType = UNSET
    detail: Detail | UnsetType | None = UNSET
    labels: list[str] | UnsetType = UNSET


class TitleTaken(Refusal):
    """Two notes of one store cannot have the same title."""

    status, code, title = 409, "title_taken", "Another note has this title"


class Row(msgspec.Struct):
    doc: bytes
    version: int


DOC = """'{"id":' || id || ',' || body || ',"version":' || version || '}'"""
LISTING = Listing(
    table="notes",
    doc=DOC,
    tombstone=TOMBSTONE,
    counted_as="notes",
    deletable=True,
    sorts={"id": "id", "title": "title", "price": "price"},
    where={
        "color": "color = ANY({}::text[])",
        "ids": "id = ANY({}::bigint[])",
        "title": "title = {}",
        "pinned": "pinned = {}",
        "price": "price = {}",
        "price[gte]": "price >= {}",
        "price[gt]": "price > {}",
        "price[lte]": "price <= {}",
        "price[lt]": "price < {}",
        "updated_since": "updated_at >= {}",
    },
)
NOTES = ListOf(
    filters={
        "color": Choices(values=("red", "green", "blue")),
        "ids": Ids(),
        "title": Text(),
        "pinned": Flag(),
        "price": MoneyRange(),
        "updated_since": Moment(),
    },
    sorts={"id": int, "title": str, "price": int},
    deletable=True,
)
GET = Query(
    Row,
    f"SELECT textsend({DOC}) AS doc, version FROM notes WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL",
)
LOCK = Query(Row, GET.sql + " FOR UPDATE")
TAKEN = Query(int, "SELECT id FROM notes WHERE store_id = $1 AND title = $2 AND deleted_at IS NULL")
INSERT = Query(
    int,
    "INSERT INTO notes (store_id, title, price, color, pinned, body) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
)
UPDATE = Query(
    int,
    """UPDATE notes SET title = $3, price = $4, color = $5, body = $6, version = version + 1, updated_at = now()
        WHERE store_id = $1 AND id = $2 RETURNING version""",
)
DELETE = Command(
    "UPDATE notes SET deleted_at = now(), version = version + 1, updated_at = now() WHERE store_id = $1 AND id = $2"
)
COUNT = Command("INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'notes', $2)")

routes = Routes("Notes")


def _members(note: dict[str, Any]) -> str:
    return msgspec.json.encode(note)[1:-1].decode()


@routes.get("/notes", scope="products:read", lists=NOTES)
async def list_notes(call: Call, query: ListQuery) -> Page[Note]:
    """List notes."""
    return await list_page(call.db, call.store_id, LISTING, query)


@routes.post("/notes", scope="products:write", errors=[TitleTaken])
async def create_note(call: Call, body: NewNote) -> Created[Note]:
    """Write a note."""
    if await TAKEN.maybe(call.db, call.store_id, body.title) is not None:
        raise TitleTaken
    minor = money.to_minor(body.price, call.store.digits)
    note = {
        "title": body.title,
        "price": money.to_text(minor, call.store.digits),
        "color": body.color,
        "pinned": body.pinned,
        "detail": body.detail or Detail(),
        "labels": body.labels,
    }
    new = await INSERT.one(call.db, call.store_id, body.title, minor, body.color, body.pinned, _members(note))
    await COUNT.run(call.db, call.store_id, 1)
    row = await GET.one(call.db, call.store_id, new)
    return Created(row.doc, row.version, f"/notes/{new}")


@routes.get("/notes/{note_id}", scope="products:read")
async def get_note(call: Call, note_id: int) -> One[Note]:
    """Read a note."""
    row = await GET.maybe(call.db, call.store_id, note_id)
    if row is None:
        raise NotFound
    return One(row.doc, row.version)


@routes.patch("/notes/{note_id}", scope="products:write", errors=[TitleTaken])
async def update_note(call: Call, note_id: int, body: NoteChanges) -> One[Note]:
    """Change a note."""
    row = await LOCK.maybe(call.db, call.store_id, note_id)
    if row is None:
        raise NotFound
    call.check_version(row.version)
    before: dict[str, Any] = msgspec.json.decode(row.doc)
    check_echoes(call, before)
    after = merge(before, {**call.patch, **({"price": str(body.price)} if body.price is not UNSET else {})})
    after.setdefault("detail", {"author": None, "pages": None})
    if not changes_between(before, after):
        return One(row.doc, row.version)
    kept = {name: value for name, value in after.items() if name not in ("id", "version")}
    minor = money.to_minor(msgspec.convert(after["price"], Money), call.store.digits)
    await UPDATE.one(call.db, call.store_id, note_id, after["title"], minor, after["color"], _members(kept))
    row = await GET.one(call.db, call.store_id, note_id)
    return One(row.doc, row.version)


@routes.delete("/notes/{note_id}", scope="products:write")
async def delete_note(call: Call, note_id: int) -> NoContent:
    """Throw a note away."""
    row = await LOCK.maybe(call.db, call.store_id, note_id)
    if row is None:
        raise NotFound
    call.check_version(row.version)
    await DELETE.run(call.db, call.store_id, note_id)
    await COUNT.run(call.db, call.store_id, -1)
    return NoContent()


@routes.get("/crash", scope="products:read")
async def crash(call: Call) -> One[Note]:
    """Break, as nothing should."""
    raise RuntimeError("secret detail")


@routes.get(
    "/old-notes/{note_id}",
    scope="products:read",
    deprecation=Deprecation(date(2026, 1, 1), date(2027, 1, 1), "https://docs.example.com/old-notes"),
)
async def get_old_note(call: Call, note_id: int) -> One[Note]:
    """Read a note the way it used to be read."""
    return await get_note(call, note_id)
