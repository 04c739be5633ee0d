"""The OpenAPI 3.2 document: valid, the same as that of 3.1 except where 3.2 says more, and true of real streams."""

import json
from typing import Any, cast

import httpx
import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV32SpecValidator, schemas

from stoa.access.discovery import METADATA_PATH
from stoa.api import ENDPOINTS
from stoa.description import openapi, openapi_32
from stoa.rest.dispatch import PREFIX
from tests.support.shops import Shop

NDJSON, JSONL = "application/x-ndjson", "application/jsonl"
LISTS = [endpoint for endpoint in ENDPOINTS if endpoint.lists]


def assert_valid(value: Any, schema: Any) -> None:
    validator: Any = jsonschema.Draft202012Validator(schema)
    validator.validate(value)


def content_of(path: str) -> dict[str, Any]:
    document = openapi_32()
    response: dict[str, Any] = document["paths"][PREFIX + path]["get"]["responses"]["200"]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return response["content"]


def test_the_document_conforms_to_the_schema_of_openapi_32() -> None:
    assert_valid(openapi_32(), dict(cast("Any", schemas).schema_v32))


@pytest.mark.long
def test_references_parameters_and_schemas_are_valid() -> None:
    document: Any = openapi_32()
    assert list(OpenAPIV32SpecValidator(document).iter_errors()) == []


@pytest.mark.parametrize("path", [endpoint.path for endpoint in LISTS])
def test_every_list_describes_the_lines_of_its_stream(path: str) -> None:
    content = content_of(path)
    for media in (NDJSON, JSONL):
        assert content[media].keys() == {"itemSchema"}, "a stream is no single value"
        names = [each["$ref"].rpartition("/")[2] for each in content[media]["itemSchema"]["anyOf"]]
        assert names[-3:] == ["StreamCheckpoint", "StreamEnd", "StreamFailure"]
    assert content["text/csv"]["schema"]["type"] == "string"


def test_everything_else_is_as_in_31() -> None:
    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(each) for each in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        dropped = {
            NDJSON,
            JSONL,
            "openapi",
            "kind",
            "oauth2MetadataUrl",
            "StreamCheckpoint",
            "StreamEnd",
            "StreamFailure",
        }
        members = cast("dict[str, Any]", value)
        return {name: without(each) for name, each in members.items() if name not in dropped}

    assert without(openapi_32()) == without(openapi())
    assert openapi()["openapi"] == "3.1.0"
    assert "itemSchema" not in json.dumps(openapi())


async def test_the_document_is_served_with_the_address_of_the_service(shop: Shop) -> None:
    served = (await shop.service.get("/openapi-3.2.json")).json()
    assert served["openapi"] == "3.2.0"
    assert served["info"] == openapi()["info"]
    [scheme] = served["components"]["securitySchemes"].values()
    assert scheme["oauth2MetadataUrl"] == METADATA_PATH
    assert (await shop.service.get(METADATA_PATH)).json()["token_endpoint"].endswith("/oauth/token")


async def lines_of(client: httpx.AsyncClient, path: str, **params: str) -> list[Any]:
    answer = await client.get(path, params=params, headers={"accept": NDJSON, "prefer": "checkpoints"})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_the_lines_of_a_stream_match_their_schema(shop: Shop) -> None:
    filled = await shop.fill()
    await shop.add(*({"name": f"Mug {n}", "price": "1.00"} for n in range(300)))
    await shop.client.delete(f"/products/{filled['product_id']}")
    schema = {**content_of("/products")[NDJSON]["itemSchema"], "components": openapi_32()["components"]}
    whole = await lines_of(shop.client, "/products", include_deleted="true")
    for line in [*whole, *await lines_of(shop.client, "/products", fields="id,name")]:
        assert_valid(line, schema)
    assert "deleted_at" in whole[0]
    assert [line["meta"].get("complete") for line in whole if "meta" in line] == [None, True]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("StreamEnd", {"meta": {"total": 1, "count": 1, "cursor": None, "complete": False}}),
        ("StreamEnd", {"meta": {"count": 1, "cursor": None}}),
        ("StreamCheckpoint", {"meta": {"total": 1, "count": 1, "cursor": None, "complete": True}}),
        ("StreamFailure", {"code": "unavailable", "status": 503, "complete": True, "cursor": None}),
    ],
)
def test_a_line_that_says_something_else_does_not_match(name: str, line: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": openapi_32()["components"]}
    with pytest.raises(jsonschema.ValidationError):
        assert_valid(line, schema)
