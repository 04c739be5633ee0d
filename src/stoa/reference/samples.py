"""Examples made from the declarations: plausible values for a schema, and the request that sends them."""

import json
from typing import Any, cast

from stoa.reference.document import Document, Operation, Schema
from stoa.reference.markup import Html, join, tag
from stoa.reference.wording import alternatives, items_of, nullable, plain, values

_DEEPEST = 5
_WIDTH = 58
# What a field of this name usually holds; the last word of the name decides when the whole is not here.
_WORDS: dict[str, Any] = {
    "address1": "12 Ermou Street", "address_id": 302, "amount": "19.99", "available": 38, "barcode": "5201234567890",
    "body": "Please leave it at the door.", "brand": "Agora", "carrier": "ELTA", "category": "Clothing/Shirts",
    "city": "Athens", "country_code": "GR", "currency": "EUR", "customer_id": 77, "description": "Woven on Naxos, washed soft.",
    "email": "thea@example.com", "event": "order.created", "event_type": "order.created",
    "events": ["order.*"], "failed": 0, "first_name": "Thea", "handle": "demo", "id": 1, "index": 0,
    "instance": "/api/v3/app/products", "last_name": "Pappas", "limit": 50, "line_item_id": 1801, "locale": "el-GR",
    "metadata": {"material": "linen"}, "name": "Linen shirt",
    "number": 1001, "on_hand": 40, "option_values": {"Size": "M"}, "order_id": 512, "page": 1, "phone": "+302101234567",
    "postal_code": "105 63", "position": 1, "price": "39.00", "product_id": 812, "quantity": 2, "reserved": 2, "score": 0.92,
    "sku": "LS-M", "slug": "linen-shirt", "succeeded": 1, "tags": ["linen", "summer"], "title": "Linen shirt",
    "total": 1, "url": "https://example.com/linen-shirt", "values": ["S", "M", "L"], "variant_id": 2042, "version": 3,
    "webhook_id": 9, "weight": 0.25,
}  # fmt: skip
_USUAL = ("active", "pending", "paid", "unfulfilled", "succeeded", "upsert", "kg", "comment", "full", "healthy")
_PREFIXES = {"import_id": "imp_", "event_id": "evt_", "delivery_id": "dlv_", "request_id": "req_"}
CONTINUED = " \\\n  "
_TAKES = {"string": (str,), "integer": (int,), "number": (int, float), "array": (list,), "object": (dict,)}
_MOMENT = "2026-01-31T12:00:00Z"
_RARELY = ("deleted", "cancelled", "disabled")


def example(schema: Schema, document: Document, name: str = "", *, depth: int = 0, answer: bool = True) -> Any:
    """A plausible value; in a request it holds what is required, in an answer what is always there."""
    schema = document.resolved(schema)
    if nullable(schema):
        stated = answer and depth < _DEEPEST and not name.startswith(_RARELY)
        inner = plain(schema)
        known = _word(name, inner) is not None or "examples" in inner or values(inner)
        return example(inner, document, name, depth=depth, answer=answer) if stated and known else None
    if given := schema.get("examples"):
        return given[0]
    if allowed := values(schema):
        return next((usual for usual in _USUAL if usual in allowed), allowed[0])
    if answer is False and schema.get("default") is not None:
        return schema["default"]
    word = _word(name, schema)
    if word is not None:
        return word
    if choices := alternatives(schema):
        return example(choices[0], document, name, depth=depth, answer=answer)
    match schema.get("type"):
        case "object":
            return _members(schema, document, depth, answer=answer)
        case "array":
            inner = document.resolved(items_of(schema))
            worth = depth < _DEEPEST and (inner.get("type") != "string" or values(inner))
            return [example(inner, document, name.removesuffix("s"), depth=depth + 1, answer=answer)] if worth else []
        case "integer" | "number":
            return max(1, int(schema.get("minimum", 1)))
        case "boolean":
            return bool(schema.get("default", True))
        case _:
            return "…"


def _members(schema: Schema, document: Document, depth: int, *, answer: bool) -> dict[str, Any]:
    properties: dict[str, Schema] = schema.get("properties", {})
    # A body in which nothing is required, such as a patch, shows its first fields.
    shown = schema.get("required") or ([] if answer else list(properties)[:2])
    return {
        name: example(properties[name], document, name, depth=depth + 1, answer=answer)
        for name in properties
        if name in shown
    }


def _word(name: str, schema: Schema) -> Any:
    """The usual value of a field of this name, if the schema could take it."""
    given: Any = schema.get("type")
    if given == "string" and (name.endswith(("_at", "since", "until")) or schema.get("format") == "date-time"):
        return _MOMENT
    if given == "string" and (name == "id" or name in _PREFIXES):
        return _PREFIXES.get(name, "imp_") + "2c7w4m9k1v6x3q8t5n0b"
    if given == "string" and schema.get("format") == "decimal":
        return "39.00"
    word: Any = _WORDS.get(name, _WORDS.get(name.rpartition("_")[2]))
    return word if type(word) in _TAKES.get(str(given), ()) else None


def sample_body(operation: Operation, document: Document) -> tuple[str, str] | None:
    """The media type and the text that its example sends: the declared one, or one made from the schema."""
    if operation.request_body is None:
        return None
    name, media = next(iter(operation.request_body.content.items()))
    if name == "application/x-ndjson" and media.example is None:
        return name, _line(operation, document)
    given = media.example if media.example is not None else example(media.schema, document, answer=False)
    return name, given if isinstance(given, str) else pretty(given)


def _line(operation: Operation, document: Document) -> str:
    """A line of a file to be imported: the plain members of what would be created one by one."""
    place = operation.path.rpartition("/")[0]
    one = next((each for each in document.operations if (each.method, each.path) == ("POST", place)), None)
    created = sample_body(one, document) if one else None
    members: dict[str, Any] = json.loads(created[1]) if created else {}
    shown = {name: value for name, value in members.items() if isinstance(value, str)}
    return json.dumps(dict(list(shown.items())[:4]), ensure_ascii=False)


def sample_answer(operation: Operation, document: Document) -> tuple[str, str] | None:
    """The status and the body of its success."""
    for status, answer in operation.successes.items():
        for media in answer.content.values():
            given = media.example if media.example is not None else example(media.schema, document)
            return status, given if isinstance(given, str) else pretty(given)
    return next(((status, "") for status in operation.successes), None)


def sample_path(operation: Operation, document: Document) -> str:
    path = operation.path
    for parameter in operation.parameters:
        if parameter.where == "path":
            value = str(example(parameter.schema, document, parameter.name))
            path = path.replace(f"{{{parameter.name}}}", value)
    return path


def curl(operation: Operation, document: Document) -> Html:
    """The request as a command with its body set off; `reference.js` writes the same once it runs."""
    sent = sample_body(operation, document)
    verb = "" if operation.method == ("GET" if sent is None else "POST") else f"-X {operation.method} "
    lines = [
        f'curl {verb}"{document.base_url}{sample_path(operation, document)}"',
        '-H "Authorization: Bearer $STOA_TOKEN"',
    ]
    if sent is None:
        return join(lines, CONTINUED)
    media, body = sent
    quoted = tag("span", body.replace("'", "'\\''"), class_="body")
    return join([*lines, f'-H "Content-Type: {media}"', join(["--data '", quoted, "'"])], CONTINUED)


def pretty(value: Any, indent: str = "") -> str:
    """JSON as people write it: what fits on a line stays on a line."""
    flat = json.dumps(value, ensure_ascii=False)
    deeper = indent + "  "
    if not isinstance(value, dict | list) or not value or (indent and len(indent) + len(flat) <= _WIDTH):
        return flat
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        lines = [f"{json.dumps(key)}: {pretty(each, deeper)}" for key, each in members.items()]
    else:
        lines = [pretty(each, deeper) for each in cast("list[Any]", value)]
    return f"{flat[0]}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{flat[-1]}"
