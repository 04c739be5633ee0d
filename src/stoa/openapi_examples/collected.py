"""All examples of answers together: a resource as it is usually answered, and the operations that answer otherwise."""

from typing import Any

import msgspec

from stoa.openapi_examples import customers, orders, products, webhooks
from stoa.openapi_examples.parts import Answers, Resource

_CHAPTERS = (products, orders, customers, webhooks)


def resources() -> dict[str, Resource]:
    """One of each resource, by the name of its type."""
    return _plain({name: each for chapter in _CHAPTERS for name, each in chapter.resources().items()})


def answers() -> Answers:
    """The bodies that operations answer to the examples of their requests, where the resource alone would mislead."""
    return _plain({name: each for chapter in _CHAPTERS for name, each in chapter.answers().items()})


def _plain(value: Any) -> Any:
    """As it is on the wire; numbers are kept exactly inside."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=float))
