"""An event as its subscribers receive it: stored parts put together, the resource's document never written anew."""

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from stoa.db.query import Query

_PREFIX = "/api/v3/app"
_PLACES = {"product": "products", "order": "orders", "customer": "customers", "webhook": "webhooks"}
_PRODUCT_ID = re.compile(r'"product_id":(\d+)')
_ORDER_ID = re.compile(r'"order_id":(\d+)')
_IMPORT = re.compile(r'"id":"(imp_\w+)"')


class Event(msgspec.Struct):
    """An event as it is stored."""

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
EVENT = Query(Event, f"SELECT {_COLUMNS} FROM events WHERE store_id = $1 AND id = $2 AND routed_on = $3")
EVENT_ANY_DAY = Query(Event, f"SELECT {_COLUMNS} FROM events WHERE store_id = $1 AND id = $2")


def body(event: Event, sequence: int, *, payload: str = "full", fields: Sequence[str] = ()) -> bytes:
    """The bytes to sign and send: the envelope, and `data` whole, narrowed to some fields, or left out when thin."""
    address = _address(event)
    url = f'"{_PREFIX}/{address}"' if address else "null"
    head = (
        f'{{"id":"{event.id}","type":"{event.type}","timestamp":"{_rfc3339(event.created_at)}","api_version":"v3",'
        f'"store":{{"id":{event.store_id}}},"sequence":{sequence},'
        f'"resource":{{"type":"{event.resource_type}","id":{event.resource_id},"version":{event.resource_version},'
        f'"url":{url}}},"actor":{event.actor},"changes":{event.changes}'
    )
    if payload == "thin":
        return f"{head}}}".encode()
    return f'{head},"data":{_cut(event.data, fields) if fields else event.data}}}'.encode()


def _cut(document: str, fields: Sequence[str]) -> str:
    """Only these members, in the document's own order and its own bytes."""
    members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    kept = (f'"{name}":{bytes(members[name]).decode()}' for name in members if name in fields)
    return f"{{{','.join(kept)}}}"


def _address(event: Event) -> str | None:
    """Where the resource is found below the store's address."""
    place = _PLACES.get(event.resource_type)
    if place is not None:
        return f"{place}/{event.resource_id}"
    if event.resource_type == "variant" and (found := _PRODUCT_ID.search(event.data)):
        return f"products/{found[1]}/variants/{event.resource_id}"
    if event.resource_type == "comment" and (found := _ORDER_ID.search(event.data)):
        return f"orders/{found[1]}/comments"  # else one who gets thin events would not know which order
    if event.resource_type == "import" and (found := _IMPORT.search(event.data)):
        return f"{event.type.partition('.')[0]}s/imports/{found[1]}"
    return None


def _rfc3339(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
