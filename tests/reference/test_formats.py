"""The description of the API in other forms: compressed, as Markdown, as a Postman collection; and pages that are missing."""

import gzip
import json
import re
from datetime import UTC, datetime
from typing import Any

import httpx
import jsonschema
import msgspec
import pytest
from starlette.applications import Starlette

from stoa.access.addresses import YOUR_STORE
from stoa.accounts.ownership import open_store
from stoa.accounts.registration import create_account
from stoa.api import ENDPOINTS, EVENTS
from stoa.app import Application
from stoa.db.pool import Database
from stoa.description import openapi, openapi_bytes
from stoa.guides.library import changelog, guides
from stoa.reference import page
from stoa.reference.markdown import texts
from stoa.reference.postman import collection
from stoa.reference.routes import routes
from stoa.reference.sample_store import DEMO, SampleStore
from stoa.settings import Settings
from tests.docs.pages import ROOT
from tests.reference.reading import read
from tests.support.people import PASSWORD, as_operator, new_email
from tests.support.shops import Shop

CACHED = ["/openapi.json", "/openapi-3.2.json", "/postman.json", "/llms.txt", "/llms-full.txt", "/docs", "/docs/guides/errors",
          "/docs/guides/errors.md", "/docs/assets/search.js", "/docs/search?q=stock", "/docs/search.json?q=stock", "/problems/rate_limited",
          "/problems/invalid_format", "/docs/guides/order-lifecycle.svg", "/docs/changelog"]  # fmt: skip
_TEXT = {"type": "string"}
_DESCRIBED = {"key": _TEXT, "value": _TEXT, "description": _TEXT, "disabled": {"type": "boolean"}, "type": _TEXT}
_PAIR = {"type": "object", "required": ["key", "value"], "properties": _DESCRIBED, "additionalProperties": False}
_PAIRS = {"type": "array", "items": _PAIR}
_AUTH = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["bearer", "noauth"]}, "bearer": _PAIRS},
}
# The part of format 2.1 that we use, strictly: what is not listed is not sent.
POSTMAN: dict[str, Any] = {
    "type": "object",
    "required": ["info", "item"],
    "additionalProperties": False,
    "properties": {
        "info": {
            "type": "object",
            "required": ["name", "schema"],
            "properties": {"schema": {"pattern": r"/v2\.1\.0/"}, "name": {"minLength": 1}, "description": _TEXT},
        },
        "auth": _AUTH,
        "variable": _PAIRS,
        "item": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/item"}, {"$ref": "#/$defs/folder"}]}},
    },
    "$defs": {
        "folder": {
            "type": "object",
            "required": ["name", "item"],
            "properties": {
                "name": _TEXT,
                "description": _TEXT,
                "item": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            },
            "additionalProperties": False,
        },
        "item": {
            "type": "object",
            "required": ["name", "request"],
            "properties": {
                "name": _TEXT,
                "request": {"$ref": "#/$defs/request"},
                "event": {"type": "array"},
                "response": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name", "code", "body"],
                        "properties": {
                            "name": _TEXT,
                            "originalRequest": {"$ref": "#/$defs/request"},
                            "code": {"type": "integer"},
                            "header": _PAIRS,
                            "body": _TEXT,
                        },
                        "additionalProperties": False,
                    },
                },
            },
            "additionalProperties": False,
        },
        "request": {
            "type": "object",
            "required": ["method", "url", "header"],
            "properties": {
                "method": {"enum": ["GET", "POST", "PUT", "PATCH", "DELETE"]},
                "description": _TEXT,
                "header": _PAIRS,
                "auth": _AUTH,
                "url": {
                    "type": "object",
                    "required": ["raw", "host", "path"],
                    "properties": {
                        "raw": _TEXT,
                        "host": {"const": ["{{base_url}}"]},
                        "path": {"type": "array", "items": {"type": "string", "pattern": "^[^{}/]+$"}},
                        "query": _PAIRS,
                        "variable": _PAIRS,
                    },
                    "additionalProperties": False,
                },
                "body": {
                    "type": "object",
                    "required": ["mode"],
                    "properties": {
                        "mode": {"enum": ["raw", "urlencoded"]},
                        "raw": _TEXT,
                        "urlencoded": _PAIRS,
                        "options": {"type": "object"},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize("address", CACHED)
async def test_a_document_is_compressed_and_read_again_only_if_it_changed(shop: Shop, address: str) -> None:
    plain = await shop.service.get(address, headers={"accept-encoding": "identity"})
    assert plain.status_code == 200
    assert "content-encoding" not in plain.headers
    async with shop.service.stream("GET", address, headers={"accept-encoding": "gzip"}) as zipped:
        raw = b"".join([part async for part in zipped.aiter_raw()])
    assert zipped.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in zipped.headers["vary"]
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content)
    assert zipped.headers["etag"] != plain.headers["etag"], "the bytes differ"
    for tag in (plain.headers["etag"], zipped.headers["etag"]):
        again = await shop.service.get(address, headers={"if-none-match": f'"other", W/{tag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert "etag" in again.headers
    assert (await shop.service.get(address, headers={"if-none-match": '"other"'})).status_code == 200


async def test_the_served_description_is_the_committed_one_with_the_address_of_the_service(shop: Shop) -> None:
    served = (await shop.service.get("/openapi.json")).json()
    committed = json.loads(openapi_bytes())
    (server,), (declared,) = served.pop("servers"), committed.pop("servers")
    assert declared["variables"]["base_url"]["default"] == "http://localhost:8000/stores/demo"
    base = str(shop.service.base_url).rstrip("/")
    store = server["variables"]["base_url"]["default"]
    assert store in (f"{base}/stores/{DEMO}", f"{base}/stores/{YOUR_STORE}")
    expected = json.dumps(committed).replace("http://localhost:8000/stores/demo", store)
    assert json.dumps(served) == expected.replace("http://localhost:8000", base)


async def test_the_whole_documentation_is_one_text(shop: Shop) -> None:
    full = (await shop.service.get("/llms-full.txt")).text
    for address, text in texts(page.document(), guides(), changelog()).items():
        assert f"<!-- {address}.md -->" in full
        assert text().partition("\n")[0] in full


def test_the_postman_collection_follows_its_format() -> None:
    jsonschema.validate(collection(page.document()), POSTMAN)


def test_the_postman_collection_has_every_operation_with_its_example() -> None:
    first, *folders = collection(page.document())["item"]
    assert first["request"]["body"]["mode"] == "urlencoded"
    items = [item for folder in folders for item in folder["item"]]
    sent = {(each["request"]["method"], each["request"]["url"]["raw"]) for each in items}
    assert len(items) == len(ENDPOINTS)
    assert ("PATCH", "{{base_url}}/api/v3/app/products/:product_id") in sent
    for item in items:
        url = item["request"]["url"]
        variables = {each["key"] for each in url["variable"] if each["value"]}
        assert variables == {part[1:] for part in url["path"] if part.startswith(":")}
        body = item["request"].get("body")
        if body and body["options"]["raw"]["language"] == "json":
            json.loads(body["raw"])


async def test_every_guide_operation_and_event_is_available_as_markdown(shop: Shop) -> None:
    index = (await shop.service.get("/llms.txt")).text
    document = page.document()
    wanted = [*(f"/docs/guides/{name}" for name in guides()), *document.addresses.values()]
    wanted += [f"/docs/events/{name}" for name in EVENTS if name in openapi()["webhooks"]]
    for address in wanted:
        assert f"{address}.md)" in index
        answer = await shop.service.get(f"{address}.md")
        assert answer.status_code == 200, address
        assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
        assert answer.text.startswith("# ")
    created = (await shop.service.get("/docs/products/create_product.md")).text
    for part in ("`POST /api/v3/app/products`", "Scope: `products:write`", "- `name` (string", "sku_taken", "curl "):
        assert part in created


async def test_links_in_markdown_lead_to_markdown(shop: Shop) -> None:
    text = (await shop.service.get("/docs/guides/products.md")).text
    assert "](/docs/guides/errors.md#request-limits)" in text
    assert "](../" not in "".join(each() for each in texts(page.document(), guides(), guides()["errors"]).values())


@pytest.mark.parametrize(
    "address",
    ["/docs/nothing", "/docs/products/nothing", "/docs/nothing.md", "/docs/assets/nothing.js", "/docs/guides/nothing.svg",
     "/docs/events/order.nothing", "/problems/nothing", "/docs/%3Cscript%3Ealert(1)%3C/script%3E"],
)  # fmt: skip
async def test_an_unknown_page_is_a_page(shop: Shop, address: str) -> None:
    answer = await shop.service.get(address)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    root = read(answer.text)
    assert root.all("h1")[0].text == "Page not found"
    assert "/docs/search" in [each.attributes["action"] for each in root.by_id("main").all("form")]
    assert "alert(1)" not in answer.text


async def test_an_unknown_address_elsewhere_is_a_problem_document(shop: Shop) -> None:
    assert (await shop.service.get("/nothing")).headers["content-type"] == "application/problem+json"


async def test_the_changelog_has_a_section_for_each_version(shop: Shop) -> None:
    root = read((await shop.service.get("/docs/changelog")).text)
    assert [each.text for each in root.by_id("main").all("h2") if "label" not in each.classes] == ["3.2", "3.1", "3.0"]


def test_every_version_of_the_changelog_has_the_date_of_a_release() -> None:
    released = dict(re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE))
    dated = re.findall(
        r"^## (3\.\d+)\n\n\*(?:Since )?(\d+ \w+ \d{4}), with Stoa ([\d.]+\d)\.", changelog().text, re.MULTILINE
    )
    assert [version for version, _, _ in dated] == re.findall(r"^## (.+)$", changelog().text, re.MULTILINE)
    for _, day, release in dated:
        assert datetime.strptime(day, "%d %B %Y").replace(tzinfo=UTC).date().isoformat() == released[release]


@pytest.mark.parametrize(
    "address",
    [
        "/docs/products/list_products",
        "/docs/products/list_products.md",
        "/postman.json",
        "/openapi.json",
        "/llms-full.txt",
    ],
)
async def test_samples_show_the_public_address_of_the_service(db: Database, address: str) -> None:
    app = Starlette(routes=routes("https://stoa.example.org/", SampleStore(db)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://10.0.0.1") as client:
        text = (await client.get(address)).text
        index = (await client.get("/llms.txt")).text
    assert "https://stoa.example.org/stores/YOUR-STORE" in text
    assert "https://stoa.example.org/stores/demo" not in text
    assert "localhost:8000" not in text
    assert "(https://stoa.example.org/docs/guides/quickstart.md)" in index


async def test_samples_name_the_demo_store_where_it_exists(settings: Settings) -> None:
    application = Application(settings)
    try:
        by = as_operator(application.database, settings)
        store = SampleStore(application.database)
        assert await store.handle() == YOUR_STORE
        await open_store(by, (await create_account(by, new_email(), "Dana", PASSWORD)).id, DEMO, "Hearth & Loom", "USD")
        assert await store.handle() == YOUR_STORE  # remembered for a minute
        assert await SampleStore(application.database).handle() == DEMO
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://10.0.0.1") as client:
            assert "http://10.0.0.1/stores/demo/api" in (await client.get("/docs/orders/get_order")).text
    finally:
        await application.database.execute("UPDATE stores SET handle = 'no-demo' WHERE handle = $1", DEMO)
        await application.close()


async def test_samples_are_shown_while_the_database_is_away(settings: Settings) -> None:
    away = Database("postgresql://stoa@127.0.0.1:1/none", size=1)
    assert await SampleStore(away).handle() == YOUR_STORE
    await away.close()


@pytest.mark.parametrize(
    "address",
    [
        *("/docs/orders/get_order", "/docs/orders/get_order.md", "/problems/not_found"),
        *("/openapi.json", "/openapi-3.2.json", "/postman.json", "/llms.txt", "/llms-full.txt"),
    ],
)
async def test_samples_show_the_address_at_which_the_reader_reached_the_service(
    settings: Settings, address: str
) -> None:
    application = Application(msgspec.structs.replace(settings, public_url="", proxies=1))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://10.0.0.1") as client:

        async def text(**headers: str) -> str:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            return (await client.get(address, headers=sent)).text

        assert "http://10.0.0.1/" in await text()
        behind = await text(host="Stoa.example.org:8443", x_forwarded_proto="https", x_forwarded_for="192.0.2.7")
        assert "https://stoa.example.org:8443/" in behind
        assert "10.0.0.1" not in behind
        for host in ('evil"><script>alert(1)</script>', "evil host", "evil/host", "evil.example:99999999", "x" * 300):
            forged = await text(host=host)
            assert host not in forged
            assert "stoa.example.org" not in forged
    await application.close()
