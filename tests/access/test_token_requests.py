"""Asking for a token: who may, for what, and every way to be refused."""

import base64
import gzip

import httpx
import pytest
from starlette.applications import Starlette

from stoa.access.admission import Admission
from stoa.access.apps import create_app
from stoa.access.credentials import is_access_token, new_client_id, new_client_secret
from stoa.access.grants import install
from stoa.access.oauth import routes
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.access.tenants import ASKED, Tenant, ask, open_tenant, refused, token_of

FORM = {"content-type": "application/x-www-form-urlencoded"}


# --- a token -------------------------------------------------------------------------------------------------------


async def test_basic_credentials_get_a_token(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await ask(desk, auth=tenant.basic)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert is_access_token(body.pop("access_token"))
    assert body == {"token_type": "Bearer", "expires_in": 3600, "scope": " ".join(ASKED)}


async def test_credentials_in_the_body_get_a_token(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await ask(desk, client_id=tenant.app, client_secret=tenant.secret.client_secret)
    assert answer.status_code == 200


async def test_basic_credentials_may_be_form_encoded_inside(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    encoded = "".join(f"%{ord(c):02X}" for c in tenant.app)
    assert (await ask(desk, auth=(encoded, tenant.secret.client_secret))).status_code == 200


async def test_the_body_may_name_the_client_that_basic_names(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    assert (await ask(desk, auth=tenant.basic, client_id=tenant.app)).status_code == 200


async def test_a_parameter_without_value_counts_as_left_out(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await ask(desk, auth=tenant.basic, scope="", resource="", client_secret="")
    assert answer.json()["scope"] == " ".join(ASKED)
    assert "resource" not in answer.json()


async def test_an_unknown_parameter_is_ignored(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    assert (await ask(desk, auth=tenant.basic, audience="x")).status_code == 200


async def test_a_packed_body_is_understood(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    packed = gzip.compress(b"grant_type=client_credentials")
    answer = await desk.post(
        "/oauth/token", content=packed, headers={**FORM, "content-encoding": "gzip"}, auth=tenant.basic
    )
    assert answer.status_code == 200


async def test_the_request_id_is_taken_or_made_and_echoed(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    assert (await ask(desk, auth=tenant.basic)).headers["x-request-id"].startswith("req_")
    given = await desk.post("/oauth/token", headers={"x-request-id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"


class CountingDatabase(Database):
    """A database that knows how often it was asked."""

    asked = 0

    async def fetch(self, sql: str, *args: object):  # noqa: ANN201 - as the parent
        self.asked += 1
        return await super().fetch(sql, *args)

    async def execute(self, sql: str, *args: object) -> str:
        self.asked += 1
        return await super().execute(sql, *args)


async def test_a_token_costs_two_round_trips(settings: Settings, tenant: Tenant) -> None:
    counting = CountingDatabase(settings.database_url)
    app = Starlette(routes=routes(counting, Admission(counting, settings), settings))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as desk:
        resource = f"http://{tenant.handle}.localhost/api/v3/app"
        assert (await ask(desk, auth=tenant.basic, resource=resource)).status_code == 200
    await counting.close()
    assert counting.asked == 2


# --- scope ---------------------------------------------------------------------------------------------------------


async def test_a_token_may_be_narrowed(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await ask(desk, auth=tenant.basic, scope="orders:read products:write")
    assert answer.json()["scope"] == "products:write orders:read"


async def test_read_may_be_asked_of_an_app_that_has_write(desk: httpx.AsyncClient, operator: Operator) -> None:
    tenant = await open_tenant(operator, ["orders:write"])
    assert (await ask(desk, auth=tenant.basic, scope="orders:read")).json()["scope"] == "orders:read"


@pytest.mark.parametrize("scope", ["customers:read", "orders:read nonsense", "orders:read  products:read", "é", "all"])
async def test_a_scope_beyond_the_grant_is_refused(desk: httpx.AsyncClient, tenant: Tenant, scope: str) -> None:
    words = refused(await ask(desk, auth=tenant.basic, scope=scope), 400, "invalid_scope")
    assert "products:write" in words


async def test_a_bound_token_is_limited_to_what_that_store_grants(
    desk: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    await install(operator, tenant.app, tenant.handle, ["orders:read"])
    path = f"/stores/{tenant.handle}/oauth/token"
    assert (await ask(desk, path, auth=tenant.basic)).json()["scope"] == "orders:read"
    refused(await ask(desk, path, auth=tenant.basic, scope="orders:write"), 400, "invalid_scope")


# --- credentials that are not right --------------------------------------------------------------------------------


async def test_an_unknown_client_and_a_wrong_secret_are_refused_alike(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    wrong = await ask(desk, auth=(tenant.app, new_client_secret()))
    unknown = await ask(desk, auth=(new_client_id(), new_client_secret()))
    refused(wrong, 401, "invalid_client")
    assert wrong.content == unknown.content
    names = {"x-request-id"}
    assert [h for h in wrong.headers.items() if h[0] not in names] == [
        h for h in unknown.headers.items() if h[0] not in names
    ]
    assert wrong.headers["www-authenticate"].startswith("Basic ")


async def test_anothers_secret_is_wrong(desk: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    other = await create_app(operator, "Another app", ["orders:read"])
    refused(await ask(desk, auth=(tenant.app, other.client_secret)), 401, "invalid_client")


async def test_no_credentials_are_refused(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    refused(await ask(desk), 401, "invalid_client")
    refused(await ask(desk, client_id=tenant.app), 401, "invalid_client")


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Basic " + base64.b64encode(b"a%FFb:c").decode(),
        "Basic " + base64.b64encode(b"a\x00b:c").decode(),
        "Basic " + base64.b64encode(b"x" * 5000 + b":y").decode(),
        "Bearer stoa_at_x",
        "Digest a=b",
    ],
)
async def test_an_unreadable_authorization_is_refused(desk: httpx.AsyncClient, header: str) -> None:
    answer = await desk.post(
        "/oauth/token", data={"grant_type": "client_credentials"}, headers={"authorization": header}
    )
    refused(answer, 401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic ")


async def test_basic_and_body_credentials_together_are_refused(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    both = await ask(desk, auth=tenant.basic, client_id=tenant.app, client_secret=tenant.secret.client_secret)
    refused(both, 400, "invalid_request")
    refused(await ask(desk, auth=tenant.basic, client_secret=tenant.secret.client_secret), 400, "invalid_request")
    refused(await ask(desk, auth=tenant.basic, client_id=new_client_id()), 400, "invalid_request")


# --- requests that are not right -----------------------------------------------------------------------------------


async def test_another_grant_type_is_refused(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    for grant_type in ("password", "authorization_code", "refresh_token"):
        answer = await ask(desk, auth=tenant.basic, grant_type=grant_type)
        refused(answer, 400, "unsupported_grant_type")


async def test_a_missing_grant_type_is_refused(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    refused(await ask(desk, auth=tenant.basic, grant_type=""), 400, "invalid_request")
    refused(await desk.post("/oauth/token", content=b"", headers=FORM, auth=tenant.basic), 400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        b"grant_type=client_credentials&grant_type=client_credentials",
        b"grant_type=client_credentials&scope=orders:read&scope=",
        b"grant_type=client_credentials&x=1&x=2",
        b"grant_type=client_credentials&scope",
        b"grant_type=client_credentials&scope=%FF",
        b"\xff=\xff",
        b"&".join(b"p%d=1" % n for n in range(60)),
        b'{"grant_type":"client_credentials"}',
    ],
)
async def test_a_body_that_is_no_form_or_repeats_itself_is_refused(
    desk: httpx.AsyncClient, tenant: Tenant, body: bytes
) -> None:
    answer = await desk.post("/oauth/token", content=body, headers=FORM, auth=tenant.basic)
    refused(answer, 400, "invalid_request")


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "text/plain", ""])
async def test_another_media_type_is_refused(desk: httpx.AsyncClient, tenant: Tenant, kind: str) -> None:
    answer = await desk.post(
        "/oauth/token", content=b"grant_type=client_credentials", headers={"content-type": kind}, auth=tenant.basic
    )
    refused(answer, 400, "invalid_request")


async def test_the_media_type_may_name_its_charset(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await desk.post(
        "/oauth/token",
        content=b"grant_type=client_credentials",
        headers={"content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"},
        auth=tenant.basic,
    )
    assert answer.status_code == 200


async def test_a_body_over_16_kib_is_refused(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    body = b"grant_type=client_credentials&x=" + b"y" * 16_384
    refused(await desk.post("/oauth/token", content=body, headers=FORM, auth=tenant.basic), 413, "invalid_request")


async def test_parameters_in_the_address_are_refused(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    refused(await ask(desk, "/oauth/token?client_secret=x", auth=tenant.basic), 400, "invalid_request")


async def test_only_post_is_taken(desk: httpx.AsyncClient) -> None:
    answer = await desk.get("/oauth/token")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_a_database_that_is_away_is_a_503(settings: Settings, tmp_path: object) -> None:
    away = Database(f"postgresql://nobody@/nothing?host={tmp_path}")
    app = Starlette(routes=routes(away, Admission(away, settings), settings))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service.test") as desk:
        answer = await ask(desk, auth=(new_client_id(), new_client_secret()))
    refused(answer, 503, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_refusals_never_repeat_a_secret(desk: httpx.AsyncClient, tenant: Tenant) -> None:
    secret = tenant.secret.client_secret
    for answer in (
        await ask(desk, auth=(tenant.app + "x", secret)),
        await ask(desk, auth=tenant.basic, scope=secret),
        await ask(desk, auth=tenant.basic, resource=secret),
        await ask(desk, auth=tenant.basic, grant_type=secret),
        await ask(desk, auth=tenant.basic, client_secret=secret),
    ):
        assert answer.status_code in (400, 401)
        assert secret not in answer.text + str(answer.headers)


async def test_tokens_and_secrets_are_stored_only_as_hashes(
    desk: httpx.AsyncClient, db: Database, tenant: Tenant
) -> None:
    token = await token_of(desk, tenant)
    for table in ("tokens", "app_secrets", "audit_entries", "events", "failed_tries"):
        rows = await db.fetch(f"SELECT t::text FROM {table} t")
        text = "\n".join(row[0] for row in rows)
        assert token not in text
        assert tenant.secret.client_secret not in text
