"""The webhook payload: builds the envelope of an event around its stored document, without encoding the document again."""

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from stoa.db.query import Query

_PREFIX = "/api/v3/app"
_COLLECTIONS = {"product": "products", "order": "orders", "customer": "customers", "webhook": "webhooks"}
_PRODUCT_ID = re.compile(r'"product_id":(\d+)')
_ORDER_ID = re.compile(r'"order_id":(\d+)')
_IMPORT = re.compile(r'"id":"(imp_\w+)"')


class Event(msgspec.Struct):
    """A stored event."""

    store_id: int
    id: str
    type: str
    resource_type: str
    resource_id: int
    resource_version: int
    actor: str
    changes: str
    data: str
    created_at: datetime


_COLUMNS = "store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, created_at"
EVENT_ANY_DAY = Query(Event, f"SELECT {_COLUMNS} FROM events WHERE store_id = $1 AND id = $2")


def body(event: Event, sequence: int, *, payload: str = "full", fields: Sequence[str] = ()) -> bytes:
    """The bytes to sign and send. `fields` narrows `data` to these members; a thin payload omits it."""
    path = _path(event)
    url = f'"{_PREFIX}/{path}"' if path else "null"
    head = (
        f'{{"id":"{event.id}","type":"{event.type}","timestamp":"{_rfc3339(event.created_at)}","api_version":"v3",'
        f'"store":{{"id":{event.store_id}}},"sequence":{sequence},'
        f'"resource":{{"type":"{event.resource_type}","id":{event.resource_id},"version":{event.resource_version},'
        f'"url":{url}}},"actor":{event.actor},"changes":{event.changes}'
    )
    if payload == "thin":
        return f"{head}}}".encode()
    return f'{head},"data":{_select(event.data, fields) if fields else event.data}}}'.encode()


def _select(document: str, fields: Sequence[str]) -> str:
    """Keep only these members, in the order and the bytes of the document."""
    members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    selected = (f'"{name}":{bytes(members[name]).decode()}' for name in members if name in fields)
    return f"{{{','.join(selected)}}}"


def _path(event: Event) -> str | None:
    """The path of the resource below the store's base URL."""
    collection = _COLLECTIONS.get(event.resource_type)
    if collection is not None:
        return f"{collection}/{event.resource_id}"
    if event.resource_type == "variant" and (found := _PRODUCT_ID.search(event.data)):
        return f"products/{found[1]}/variants/{event.resource_id}"
    if event.resource_type == "comment" and (found := _ORDER_ID.search(event.data)):
        return f"orders/{found[1]}/comments"  # a thin event names the order nowhere else
    if event.resource_type == "import" and (found := _IMPORT.search(event.data)):
        return f"{event.type.partition('.')[0]}s/imports/{found[1]}"
    return None


def _rfc3339(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
