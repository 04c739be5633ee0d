"""Telemetry: log lines contain only allowed fields and no personal data, and metrics are summed over workers."""

import asyncio
import json
import os
import secrets

import httpx
import msgspec
import structlog

from stoa.access.credentials import new_client_secret
from stoa.app import Application
from stoa.db.connection import connect
from stoa.operations.telemetry import LOGGED
from stoa.settings import Settings
from tests.support.metrics import metric, scrape
from tests.support.service import Account, Service, new_database
from tests.support.shops import service_client

DIGITS_AS_LETTERS = str.maketrans("0123456789", "GHIJKLMNOP")
KEY, QUERY, EMAIL, DETAIL = "canary-key-5521", "canary-query-5521", "canary-5521@example.com", "secret detail"


def series(text: str) -> set[str]:
    """The name and labels of each series about requests; the others come from processes that may start meanwhile."""
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if line.startswith(("stoa_request", "stoa_refusal"))}


async def test_metrics_are_summed_over_workers_and_not_served_by_the_api(service: Service) -> None:
    account = await service.account("metrics")
    before = await scrape(service)
    assert await account.statuses(30) == {200}
    async with account.client() as client:
        assert (await client.get("/products/1")).status_code == 404
    after = await scrape(service)
    for labels, grown in (
        ({"operation": "list_products", "status": "200"}, 30),
        ({"operation": "get_product", "status": "404"}, 1),
    ):
        assert metric(after, "stoa_requests_total", **labels) - metric(before, "stoa_requests_total", **labels) == grown
    assert metric(after, "stoa_request_seconds_count", operation="list_products") >= 30
    assert service.status("/metrics") == 404


async def raw_request(port: int, line: str) -> None:
    """Send one request line as it is, and read the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line} HTTP/1.1\r\nhost: {secrets.token_hex(4)}.example.com\r\nconnection: close\r\n\r\n".encode())
    response = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert response.startswith((b"HTTP/1.1 3", b"HTTP/1.1 4")), response[:200]


async def test_callers_cannot_create_series_or_log_values(service: Service) -> None:
    account = await service.account("series")
    paths = ("/", "/docs", "/oauth/token", "/portal", "/nowhere", f"/stores/{account.handle}/api/v3/app/products")
    for path in paths:  # creates the series of each path
        for method in ("GREET", "HELLO"):
            await raw_request(service.port, f"{method} {path}/")
            await raw_request(service.port, f"{method} {path}")
    before = series(await scrape(service))
    words = [secrets.token_hex(4).upper().translate(DIGITS_AS_LETTERS) for _ in range(40)]
    for word in words:
        for path in paths:
            await raw_request(service.port, f"{word} {path}")
            await raw_request(service.port, f"{word} {path}/{word}")
            await raw_request(service.port, f"GET {path}/{word}?{word}={word}")
    after = await scrape(service)
    # A worker adds the series of a path when it first answers it; with 40 words, each word would add its own.
    assert len(series(after)) < len(before) + len(words)
    assert metric(after, "stoa_requests_total", method="other") > len(words) * len(paths)
    for text in (after, service.output()):
        assert not [word for word in words if word in text]


async def provoke(account: Account, wrong_secret: str) -> list[httpx.Response]:
    """Send secrets and personal data through every kind of error."""
    note, key = {"title": EMAIL, "price": "1.00"}, {"idempotency-key": KEY}
    async with account.client() as client, account.service.client() as service:
        return [
            await client.post("/notes", json=note, headers=key),
            await client.post("/notes", json=note),
            await client.post("/notes", json={**note, "title": f"refused {EMAIL}"}),
            await client.post("/notes", json={**note, EMAIL: EMAIL}),
            await client.post("/notes", content=f'{{"{EMAIL}'.encode(), headers={"content-type": "application/json"}),
            await client.get("/notes", params={"title": QUERY, "q": QUERY}),
            await client.get("/crash", params={"title": QUERY}),
            await client.get("/crash"),
            await client.get("/products", headers={"authorization": f"Bearer {account.token}x"}),
            await service.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=(account.client_id, wrong_secret)),
            await service.post("/oauth/introspect", data={"token": account.token}, auth=(account.client_id, account.client_secret)),
            await service.get(f"/{EMAIL}", params={"q": QUERY}),
        ]  # fmt: skip


async def test_logs_contain_only_allowed_fields_and_no_secrets_or_personal_data(embedded: Service) -> None:
    account, wrong_secret = await embedded.account("canaries"), new_client_secret()
    db = await connect(embedded.database_url)
    await db.execute("ALTER TABLE notes ADD CONSTRAINT refuse CHECK (title NOT LIKE 'refused %')")
    answers = await provoke(account, wrong_secret)
    await db.execute("ALTER TABLE notes DROP CONSTRAINT refuse")
    await db.close()
    assert [answer.status_code for answer in answers] == [201, 409, 500, 422, 400, 400, 400, 500, 401, 401, 200, 404]
    # The lines at the start are for the operator: the URL, and where to create the first account.
    announced = ("Stoa is ready", "No account exists yet")
    lines = [line for line in embedded.output().splitlines() if not line.startswith(announced)]
    logged = [json.loads(line) for line in lines]
    assert {line.get("request_id") for line in logged} >= {answer.headers["x-request-id"] for answer in answers[:9]}
    assert {field for line in logged for field in line} <= LOGGED
    broken = [line for line in logged if line["level"] == "error"]
    assert [line["error"] for line in broken] == ["CheckViolationError", "RuntimeError"]
    assert all("notes.py" in line["where"] for line in broken)
    files = [embedded.log, *embedded.folder.glob("postgres/server.log*")]
    assert len(files) == 2
    for file in files:
        text = file.read_text()
        for canary in (KEY, QUERY, EMAIL, DETAIL, account.token, account.client_secret, wrong_secret):
            assert canary not in text, f"{canary} is in {file}"


async def test_an_internal_error_outside_the_api_is_logged_with_its_location_and_reported_only_by_id(
    settings: Settings,
) -> None:
    url = await new_database(f"broken_{os.getpid()}")
    application = Application(msgspec.structs.replace(settings, database_url=url), [])
    await application.database.execute("CREATE TABLE schema_migrations (canary text)")
    with structlog.testing.capture_logs() as logged:
        async with service_client(application) as client:
            answer = await client.get("/ready")
    await application.close()
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["detail"]) == (500, "internal_error", problem["title"])
    [line] = logged
    assert (line["request_id"], line["error"]) == (problem["request_id"], "UndefinedColumnError")
    assert "migrate.py" in line["where"]
