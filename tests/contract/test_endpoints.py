"""Every endpoint requires its token and scope, is closed to other stores, and responds as documented."""

import ast
from functools import cache
from pathlib import Path
from typing import Any, get_origin

import jsonschema
import pytest
from tests.support import notes
from tests.support.shops import Shop

import stoa
from stoa.access.contract import SCOPES
from stoa.api import ENDPOINTS, EVENTS
from stoa.description import openapi
from stoa.reference.document import inlined
from stoa.reference.fault_codes import FAULT_CODES
from stoa.rest.dispatch import PREFIX
from stoa.rest.endpoint import Endpoint
from stoa.rest.openapi.errors import errors_of
from stoa.rest.problems import Refusal

EVERY = [pytest.param(endpoint, id=endpoint.name) for endpoint in ENDPOINTS]
BY_ID = [pytest.param(endpoint, id=endpoint.name) for endpoint in ENDPOINTS if endpoint.path_parameters]
LISTED = [pytest.param(endpoint, id=endpoint.name) for endpoint in ENDPOINTS if endpoint.lists]
READS = [pytest.param(endpoint, id=endpoint.name) for endpoint in ENDPOINTS if endpoint.method == "GET"]
BODIES = [*ENDPOINTS, *notes.routes.endpoints]
# A body with arbitrary keys, such as metadata, has no unknown fields.
WRITES = [pytest.param(e, id=e.name) for e in BODIES if e.body is not None and get_origin(e.body) is not dict]


def address(endpoint: Endpoint, **values: Any) -> str:
    given = {
        name: values.get(name, 1 if kind is int else "imp_none") for name, kind in endpoint.path_parameters.items()
    }
    return endpoint.path.format(**given)


def body_of(endpoint: Endpoint) -> dict[str, Any]:
    return {"json": endpoint.example or {}} if endpoint.body is not None else {}


@pytest.mark.parametrize("endpoint", EVERY)
async def test_a_valid_token_is_required(shop: Shop, endpoint: Endpoint) -> None:
    for header, code in ((None, "missing_token"), ("Basic abc", "missing_token"), ("Bearer nonsense", "invalid_token"),
                         ("Bearer ", "invalid_token"), (f"Bearer {shop.token[:-1]}", "invalid_token")):  # fmt: skip
        headers = {"authorization": header} if header else {}
        answer = await shop.anonymous.request(endpoint.method, address(endpoint), headers=headers, **body_of(endpoint))
        assert (answer.status_code, answer.json()["code"]) == (401, code)
        assert answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("endpoint", EVERY)
async def test_the_scope_is_required(shop: Shop, endpoint: Endpoint) -> None:
    noun, _, verb = endpoint.scope.partition(":")
    covering = {endpoint.scope, f"{noun}:write"} if verb == "read" else {endpoint.scope}
    client = await shop.client_with([scope for scope in SCOPES if scope not in covering])
    answer = await client.request(endpoint.method, address(endpoint), **body_of(endpoint))
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
    assert answer.json()["required_scope"] == endpoint.scope
    assert f'scope="{endpoint.scope}"' in answer.headers["www-authenticate"]
    for scope in covering:
        # A subscription also needs the scope of its events.
        of_events = ["orders:read"] if endpoint.name == "create_webhook" else []
        client = await shop.client_with([scope, *of_events, *{scope for _, scope in endpoint.field_scopes}])
        answer = await client.request(endpoint.method, address(endpoint), **body_of(endpoint))
        assert answer.status_code not in (401, 403)


@pytest.mark.parametrize("endpoint", BY_ID)
async def test_an_id_of_another_store_is_indistinguishable_from_an_unknown_id(
    shop: Shop, other_shop: Shop, endpoint: Endpoint
) -> None:
    theirs = await other_shop.fill(endpoint.path)
    values = {name: theirs[name] for name in endpoint.path_parameters}
    never = {name: 999_999_999 if kind is int else "imp_none" for name, kind in endpoint.path_parameters.items()}
    same_id = {"headers": {"x-request-id": "same"}}
    foreign = await shop.client.request(endpoint.method, address(endpoint, **values), **same_id, **body_of(endpoint))
    unknown = await shop.client.request(endpoint.method, address(endpoint, **never), **same_id, **body_of(endpoint))
    assert foreign.status_code == unknown.status_code == 404

    def text_of(answer: Any, given: dict[str, Any]) -> str:
        text = answer.text
        for value in given.values():
            text = text.replace(f"/{value}", "/ID")
        return text

    assert text_of(foreign, values) == text_of(unknown, never)
    own = await other_shop.client.request(endpoint.method, address(endpoint, **values), **body_of(endpoint))
    assert own.status_code != 404


@pytest.mark.parametrize("endpoint", EVERY)
async def test_an_unknown_parameter_is_refused(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled[name] for name in endpoint.path_parameters})
    answer = await shop.client.request(endpoint.method, f"{path}?surprise=1", **body_of(endpoint))
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")


@pytest.mark.parametrize("endpoint", WRITES)
async def test_an_unknown_field_is_refused(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled.get(name, 1) for name in endpoint.path_parameters})
    body: dict[str, Any] = {**(endpoint.example or {}), "surprise": 1}
    answer = await shop.client.request(endpoint.method, path, json=body)
    assert answer.status_code == 422
    assert ("/surprise", "unknown_field") in [(f["pointer"], f["code"]) for f in answer.json()["errors"]]


def schema_of(endpoint: Endpoint, status: int, media: str = "application/json") -> dict[str, Any]:
    """The schema of a response with all fields: nothing matches the schemas of sparse ones."""
    schema = described(endpoint)["responses"][str(status)]["content"][media]["schema"]
    components = openapi()["components"]
    whole: dict[str, Any] = {
        name: {"not": {}} if name.startswith("Sparse") else each for name, each in components["schemas"].items()
    }
    return {**schema, "components": {**components, "schemas": whole}}


@cache
def described(endpoint: Endpoint) -> dict[str, Any]:
    """The operation with its references resolved."""
    document = openapi()
    return inlined(document["paths"][PREFIX + endpoint.path][endpoint.method.lower()], document)


@pytest.mark.parametrize("endpoint", READS)
async def test_a_response_matches_the_openapi_document(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    path = address(endpoint, **{name: filled[name] for name in endpoint.path_parameters})
    includes = [None, *endpoint.includes, ",".join(endpoint.includes)] if endpoint.includes else [None]
    for include in includes:
        answer = await shop.client.get(path, params={"include": include} if include else {})
        assert answer.status_code == 200, answer.text
        jsonschema.validate(answer.json(), schema_of(endpoint, 200), cls=jsonschema.Draft202012Validator)
    sparse = await shop.client.get(path, params={"fields": "id"})
    if sparse.status_code == 200:
        true = {**schema_of(endpoint, 200), "components": openapi()["components"]}
        jsonschema.validate(sparse.json(), true, cls=jsonschema.Draft202012Validator)
    refused = await shop.client.get(f"{path}?surprise=1")
    jsonschema.validate(refused.json(), schema_of(endpoint, 400, "application/problem+json"))


@pytest.mark.parametrize("endpoint", LISTED)
async def test_a_list_has_the_envelope_and_rate_limit_headers(shop: Shop, endpoint: Endpoint) -> None:
    filled = await shop.fill(endpoint.path)
    answer = await shop.client.get(address(endpoint, **{name: filled[name] for name in endpoint.path_parameters}))
    assert set(answer.json()) == {"data", "meta"}
    assert isinstance(answer.json()["meta"]["total"], int)
    for name in (
        "ratelimit-policy",
        "ratelimit",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ):
        assert answer.headers[name]


@pytest.mark.parametrize("endpoint", EVERY)
def test_an_endpoint_is_documented(endpoint: Endpoint) -> None:
    operation = described(endpoint)
    assert operation["operationId"] == endpoint.name == endpoint.handler.__name__
    assert endpoint.summary
    assert endpoint.scope in SCOPES
    documented = {code for answer in operation["responses"].values() for code in answer.get("x-problem-codes", [])}
    assert documented == {error.code for error in errors_of(endpoint)}
    for parameter in operation["parameters"]:
        assert parameter.get("description") or parameter["in"] == "path"
    if endpoint.body is not None:
        assert endpoint.example is not None, "a body requires an example"


def test_operation_names_are_unique() -> None:
    names = [endpoint.name for endpoint in ENDPOINTS]
    assert len(names) == len(set(names))


def test_the_schemas_are_valid() -> None:
    document = openapi()
    assert document["openapi"] == "3.1.0"
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert name


def texts_in(node: ast.expr) -> set[str]:
    """The texts that an expression may have as its value."""
    if isinstance(node, ast.IfExp):
        return texts_in(node.body) | texts_in(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def fault_codes() -> set[str]:
    """The codes that the source gives to faults: as a text, or as a name to which the same module assigns texts."""
    found: set[str] = set()
    texts = (path.read_text(encoding="utf-8") for path in Path(stoa.__file__).parent.rglob("*.py"))
    for text in (each for each in texts if "Fault(" in each):
        nodes = list(ast.walk(ast.parse(text)))
        assigned: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned.setdefault(node.targets[0].id, set()).update(texts_in(node.value))
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Fault":
                code = node.args[1]
                found |= assigned.get(code.id, set()) if isinstance(code, ast.Name) else texts_in(code)
    return found


CODES_SENT = sorted({*Refusal.known, *FAULT_CODES, "precondition_required"})


def test_every_code_of_a_fault_is_declared() -> None:
    assert fault_codes() - Refusal.known.keys() == set(FAULT_CODES)


@pytest.mark.parametrize("code", CODES_SENT)
async def test_every_error_code_has_a_page(shop: Shop, code: str) -> None:
    kind = Refusal.known.get(code)
    if kind is not None:
        assert kind.title
        assert kind.__doc__
        assert 400 <= kind.status < 600
    answer = await shop.service.get(f"/problems/{code}")
    assert answer.status_code == 200
    assert code in answer.text


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_every_event_is_named_in_the_past_tense_and_has_a_scope(name: str) -> None:
    event = EVENTS[name]
    assert name.partition(".")[0] in ("product", "order", "customer", "webhook", "app")
    assert event.scope in SCOPES
    assert event.__doc__
