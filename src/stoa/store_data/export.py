"""Exports a store as lines of JSON: the store, its collections, its products, variants, customers and orders, as the API returns
them, and the files of its pictures."""

import base64
from collections.abc import AsyncGenerator

import msgspec

from stoa.access.contract import StoreRow
from stoa.access.operator import Operator
from stoa.customers.documents import only_shared
from stoa.db.query import Executor, Query
from stoa.media.addresses import PREFIX
from stoa.media.contract import MEDIA_TYPES
from stoa.media.queries import SHOWN_NAMES
from stoa.media.storage import open_storage
from stoa.orders import queries as order_queries
from stoa.products import queries as product_queries
from stoa.products.collection_changes import collections_of
from stoa.settings import Settings
from stoa.store_data.held_store import HeldStore

MEDIA, _BATCH = "application/x-ndjson", 500


class Document(msgspec.Struct):
    id: int
    doc: bytes


def _documents(table: str, expression: str, condition: str = "") -> Query[Document]:
    return Query(
        Document,
        f"""SELECT id, textsend({expression}) AS doc FROM {table}
             WHERE store_id = $1 AND id > $2 {condition} ORDER BY id LIMIT $3""",
    )


_LIVE = "AND deleted_at IS NULL"
PRODUCTS = _documents("products", product_queries.LISTING.doc, _LIVE)
VARIANTS = _documents("variants", product_queries.VARIANT_LISTING.doc, _LIVE)
CUSTOMERS = _documents("customers", """'{"id":' || id || customer_head(head, edition) || shown || tail""", _LIVE)
ORDERS = _documents("orders", order_queries.LISTING.doc)
_KINDS = (("product", PRODUCTS), ("variant", VARIANTS), ("customer", CUSTOMERS), ("order", ORDERS))


async def record_export(by: Operator, exported: StoreRow) -> None:
    """Record an export in the audit log of the store, because it contains personal data."""
    async with by.db.transaction() as db:
        await by.record(db, exported.id, "store.exported", f"store:{exported.handle}")


async def export_store(db: Executor, exported: StoreRow, settings: Settings) -> AsyncGenerator[bytes]:
    """Yield the lines of an export in batches; each line has a `type` and its `data`. Fails if the store moves meanwhile."""
    db = HeldStore(db, exported.id)
    yield _line("store", msgspec.json.encode(exported))
    yield b"".join(_line("collection", msgspec.json.encode(each)) for each in await collections_of(db, exported.id))
    for kind, query in _KINDS:
        after = 0
        while found := await query.all(db, exported.id, after, _BATCH):
            after = found[-1].id
            documents = (only_shared(each.doc) if kind == "customer" else each.doc for each in found)
            yield b"".join(_line(kind, document) for document in documents)
    storage = open_storage(settings)
    try:
        for name in await SHOWN_NAMES.all(db, exported.id):
            data = await storage.get(name) if name.startswith(f"{exported.id}/") else None
            if data is not None:
                yield _line("picture", msgspec.json.encode(_picture(name, data)))
    finally:
        await storage.close()


class ExportedPicture(msgspec.Struct):
    """The file of a picture; `path` is the end of the address that products and collections show."""

    path: str
    content_type: str
    data: str


def _picture(name: str, data: bytes) -> ExportedPicture:
    return ExportedPicture(f"{PREFIX}{name}", MEDIA_TYPES[name.rpartition(".")[2]], base64.b64encode(data).decode())


def _line(kind: str, document: bytes) -> bytes:
    return b'{"type":"%s","data":%s}\n' % (kind.encode(), document)
