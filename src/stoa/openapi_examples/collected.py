"""All examples by name: resources by type, responses by operation, events by event name, path parameters by name."""

from functools import cache
from typing import Any

import msgspec

from stoa.db.query import json_of
from stoa.openapi_examples import apps, customers, imports, inventory, orders, products
from stoa.openapi_examples.fixtures import REQUEST_ID, STORE, Events, Resource, Responses
from stoa.products.bodies import NewProduct
from stoa.products.examples import NEW_SHIRT
from stoa.rest.body import convert
from stoa.rest.dispatch import PREFIX
from stoa.rest.openapi.document import ORIGIN
from stoa.rest.problems import ValidationFailed

_WITH_RESOURCES = (products, inventory, orders, customers, imports)
_WITH_EVENTS = (products, orders, customers, imports, apps)
PATH_PARAMETERS: dict[str, Any] = {
    **products.PATH_PARAMETERS,
    **orders.PATH_PARAMETERS,
    **customers.PATH_PARAMETERS,
    **imports.PATH_PARAMETERS,
}


def resources() -> dict[str, Resource]:
    """One example of each resource, and of an error."""
    found = {name: each for chapter in _WITH_RESOURCES for name, each in chapter.resources().items()}
    return as_json({**found, "Problem": _problem()})


def responses() -> Responses:
    """The bodies that operations respond with to their example requests, where the plain resource would not match."""
    return as_json({name: each for chapter in _WITH_RESOURCES for name, each in chapter.responses().items()})


@cache
def events() -> Events:
    return {name: each for chapter in _WITH_EVENTS for name, each in chapter.events().items()}


def as_json(value: Any) -> Any:
    """The value as a client decodes it."""
    return msgspec.json.decode(json_of(value))


def _problem() -> Resource:
    """The response to the example product with a misspelled field and a price of too many digits."""
    wrong = {"nmae": NEW_SHIRT["name"], "name": NEW_SHIRT["name"], "price": "59.001"}
    try:
        convert(wrong, NewProduct, digits=STORE.digits)
    except ValidationFailed as refusal:
        body = refusal.body(origin=ORIGIN, instance=f"{PREFIX}/products", request_id=REQUEST_ID)
        return msgspec.json.decode(body)
    raise AssertionError("the example must be refused")
