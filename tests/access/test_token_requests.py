"""Token requests: credentials, scopes, and every reason for a refusal."""

import base64
import gzip

import httpx
import pytest
from starlette.applications import Starlette

from stoa.access.admission import Admission
from stoa.access.apps import create_app, resume_app, suspend_app
from stoa.access.credentials import is_access_token, new_client_id, new_client_secret
from stoa.access.grants import install
from stoa.access.oauth import routes
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.access.tenants import REQUESTED, Tenant, open_tenant, post, refused, token_of

FORM = {"content-type": "application/x-www-form-urlencoded"}


# --- a token -------------------------------------------------------------------------------------------------------


async def test_basic_credentials_get_a_token(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await post(oauth, auth=tenant.basic)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert is_access_token(body.pop("access_token"))
    assert body == {"token_type": "Bearer", "expires_in": 3600, "scope": " ".join(REQUESTED)}


async def test_credentials_in_the_body_get_a_token(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await post(oauth, client_id=tenant.app, client_secret=tenant.secret.client_secret)
    assert answer.status_code == 200


async def test_basic_credentials_may_be_form_encoded_inside(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    encoded = "".join(f"%{ord(c):02X}" for c in tenant.app)
    assert (await post(oauth, auth=(encoded, tenant.secret.client_secret))).status_code == 200


async def test_the_body_may_repeat_the_client_id_of_basic_credentials(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    assert (await post(oauth, auth=tenant.basic, client_id=tenant.app)).status_code == 200


async def test_an_empty_parameter_counts_as_absent(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await post(oauth, auth=tenant.basic, scope="", resource="", client_secret="")
    assert answer.json()["scope"] == " ".join(REQUESTED)
    assert "resource" not in answer.json()


async def test_an_unknown_parameter_is_ignored(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    assert (await post(oauth, auth=tenant.basic, audience="x")).status_code == 200


@pytest.mark.parametrize(
    "last", [b"", b"&=", b"&=x&y==", b"&x=1+%2B", b"&" + b"&".join(b"p%d=1" % n for n in range(49))]
)
async def test_a_form_is_read_with_and_without_encoded_characters(
    oauth: httpx.AsyncClient, tenant: Tenant, last: bytes
) -> None:
    body = b"grant_type=client_credentials" + last
    answer = await oauth.post("/oauth/token", content=body, headers=FORM, auth=tenant.basic)
    assert answer.status_code == 200


async def test_a_gzipped_body_is_accepted(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    compressed = gzip.compress(b"grant_type=client_credentials")
    answer = await oauth.post(
        "/oauth/token", content=compressed, headers={**FORM, "content-encoding": "gzip"}, auth=tenant.basic
    )
    assert answer.status_code == 200


async def test_the_request_id_is_echoed_or_generated(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    assert (await post(oauth, auth=tenant.basic)).headers["x-request-id"].startswith("req_")
    given = await oauth.post("/oauth/token", headers={"x-request-id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"


class CountingDatabase(Database):
    """A database that counts its statements."""

    statements = 0

    async def fetch(self, sql: str, *args: object):  # noqa: ANN201 - as the parent
        self.statements += 1
        return await super().fetch(sql, *args)

    async def execute(self, sql: str, *args: object) -> str:
        self.statements += 1
        return await super().execute(sql, *args)


async def round_trips(settings: Settings, peer: str, auth: tuple[str, str], **form: str) -> tuple[int, int]:
    """The status of a token request, and the statements that it ran."""
    counting = CountingDatabase(settings.database_url)
    app = Starlette(routes=routes(counting, Admission(counting, settings), settings))
    transport = httpx.ASGITransport(app, client=(peer, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as oauth:
        answer = await post(oauth, auth=auth, **form)
    await counting.close()
    return answer.status_code, counting.statements


@pytest.mark.not_in_shard("the endpoints of this test know no shards")
async def test_a_token_costs_one_round_trip_and_two_more_for_a_store(
    settings: Settings, peer: str, tenant: Tenant
) -> None:
    resource = f"http://{tenant.handle}.localhost/api/v3/app"
    assert await round_trips(settings, peer, tenant.basic) == (200, 1)
    assert await round_trips(settings, peer, tenant.basic, scope="orders:read") == (200, 2)
    assert await round_trips(settings, peer, tenant.basic, resource=resource) == (200, 3)


async def test_a_failed_attempt_costs_the_same_for_a_known_and_an_unknown_client(
    settings: Settings, peer: str, tenant: Tenant
) -> None:
    """Otherwise timing would reveal which clients exist, and on which stores they are installed."""
    resource = f"http://{tenant.handle}.localhost/api/v3/app"
    for client_id in (tenant.app, new_client_id()):
        assert await round_trips(settings, peer, (client_id, new_client_secret()), resource=resource) == (401, 2)
        assert await round_trips(settings, peer, (client_id, new_client_secret())) == (401, 2)


async def test_after_a_failed_attempt_a_token_is_stored_only_once_guessing_was_ruled_out(
    oauth: httpx.AsyncClient, settings: Settings, peer: str, tenant: Tenant
) -> None:
    await post(oauth, auth=(tenant.app, new_client_secret()))
    assert await round_trips(settings, peer, tenant.basic) == (200, 2)


async def tokens_of(operator: Operator, tenant: Tenant) -> int:
    found = await operator.db.fetch("SELECT count(*) FROM tokens WHERE app_id = $1", tenant.secret.app_id)
    return found[0][0]


async def test_a_refused_request_stores_no_token(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    await post(oauth, auth=tenant.basic, scope="customers:read")
    await post(oauth, auth=tenant.basic, resource="http://unknown.test/api/v3/app")
    await suspend_app(operator, tenant.app)
    assert (await post(oauth, auth=tenant.basic)).status_code == 400
    await resume_app(operator, tenant.app)
    for _ in range(10):
        await post(oauth, auth=(tenant.app, new_client_secret()))
    assert (await post(oauth, auth=tenant.basic)).status_code == 429
    assert await tokens_of(operator, tenant) == 0


async def test_each_token_is_stored_once(oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant) -> None:
    await token_of(oauth, tenant)
    assert await tokens_of(operator, tenant) == 1
    await post(oauth, auth=tenant.basic, scope="orders:read")
    assert await tokens_of(operator, tenant) == 2


# --- scope ---------------------------------------------------------------------------------------------------------


async def test_a_token_may_be_narrowed(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await post(oauth, auth=tenant.basic, scope="orders:read products:write")
    assert answer.json()["scope"] == "products:write orders:read"


async def test_read_may_be_requested_by_an_app_that_has_write(oauth: httpx.AsyncClient, operator: Operator) -> None:
    tenant = await open_tenant(operator, ["orders:write"])
    assert (await post(oauth, auth=tenant.basic, scope="orders:read")).json()["scope"] == "orders:read"


@pytest.mark.parametrize("scope", ["customers:read", "orders:read nonsense", "orders:read  products:read", "é", "all"])
async def test_a_scope_beyond_the_grant_is_refused(oauth: httpx.AsyncClient, tenant: Tenant, scope: str) -> None:
    words = refused(await post(oauth, auth=tenant.basic, scope=scope), 400, "invalid_scope")
    assert "products:write" in words


async def test_a_bound_token_is_limited_to_the_scopes_that_its_store_grants(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    await install(operator, tenant.app, tenant.handle, ["orders:read"])
    path = f"/stores/{tenant.handle}/oauth/token"
    assert (await post(oauth, path, auth=tenant.basic)).json()["scope"] == "orders:read"
    refused(await post(oauth, path, auth=tenant.basic, scope="orders:write"), 400, "invalid_scope")


# --- invalid credentials ---------------------------------------------------------------------------------------------


async def test_an_unknown_client_and_a_wrong_secret_get_the_same_refusal(
    oauth: httpx.AsyncClient, tenant: Tenant
) -> None:
    wrong = await post(oauth, auth=(tenant.app, new_client_secret()))
    unknown = await post(oauth, auth=(new_client_id(), new_client_secret()))
    refused(wrong, 401, "invalid_client")
    assert wrong.content == unknown.content
    names = {"x-request-id"}
    assert [h for h in wrong.headers.items() if h[0] not in names] == [
        h for h in unknown.headers.items() if h[0] not in names
    ]
    assert wrong.headers["www-authenticate"].startswith("Basic ")


async def test_the_secret_of_another_app_is_refused(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    other = await create_app(operator, "Another app", ["orders:read"])
    refused(await post(oauth, auth=(tenant.app, other.client_secret)), 401, "invalid_client")


async def test_missing_credentials_are_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    refused(await post(oauth), 401, "invalid_client")
    refused(await post(oauth, client_id=tenant.app), 401, "invalid_client")


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
async def test_an_unreadable_authorization_is_refused(oauth: httpx.AsyncClient, header: str) -> None:
    answer = await oauth.post(
        "/oauth/token", data={"grant_type": "client_credentials"}, headers={"authorization": header}
    )
    refused(answer, 401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic ")


async def test_basic_and_body_credentials_together_are_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    both = await post(oauth, auth=tenant.basic, client_id=tenant.app, client_secret=tenant.secret.client_secret)
    refused(both, 400, "invalid_request")
    refused(await post(oauth, auth=tenant.basic, client_secret=tenant.secret.client_secret), 400, "invalid_request")
    refused(await post(oauth, auth=tenant.basic, client_id=new_client_id()), 400, "invalid_request")


# --- invalid requests ------------------------------------------------------------------------------------------------


async def test_another_grant_type_is_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    for grant_type in ("password", "authorization_code", "refresh_token"):
        answer = await post(oauth, auth=tenant.basic, grant_type=grant_type)
        refused(answer, 400, "unsupported_grant_type")


async def test_a_missing_grant_type_is_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    refused(await post(oauth, auth=tenant.basic, grant_type=""), 400, "invalid_request")
    refused(await oauth.post("/oauth/token", content=b"", headers=FORM, auth=tenant.basic), 400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        b"grant_type=client_credentials&grant_type=client_credentials",
        b"grant_type=client_credentials&scope=orders:read&scope=",
        b"grant_type=client_credentials&x=1&x=2",
        b"grant_type=client_credentials&scope",
        b"grant_type=client_credentials&scope=%FF",
        b"\xff=\xff",
        b"grant_type=client_credentials&scope&x=%20",
        b"grant_type=client_credentials&&x=1",
        b"grant_type=client_credentials&",
        b"grant_type=client_credentials&" + b"&".join(b"p%d=1" % n for n in range(50)),
        b"grant_type=client_credentials&x=%20&" + b"&".join(b"p%d=1" % n for n in range(49)),
        b'{"grant_type":"client_credentials"}',
    ],
)
async def test_a_body_that_is_no_form_or_has_repeated_parameters_is_refused(
    oauth: httpx.AsyncClient, tenant: Tenant, body: bytes
) -> None:
    answer = await oauth.post("/oauth/token", content=body, headers=FORM, auth=tenant.basic)
    refused(answer, 400, "invalid_request")


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "text/plain", ""])
async def test_another_media_type_is_refused(oauth: httpx.AsyncClient, tenant: Tenant, kind: str) -> None:
    answer = await oauth.post(
        "/oauth/token", content=b"grant_type=client_credentials", headers={"content-type": kind}, auth=tenant.basic
    )
    refused(answer, 400, "invalid_request")


async def test_the_media_type_may_name_its_charset(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    answer = await oauth.post(
        "/oauth/token",
        content=b"grant_type=client_credentials",
        headers={"content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"},
        auth=tenant.basic,
    )
    assert answer.status_code == 200


async def test_a_body_over_16_kib_is_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    body = b"grant_type=client_credentials&x=" + b"y" * 16_384
    refused(await oauth.post("/oauth/token", content=body, headers=FORM, auth=tenant.basic), 413, "invalid_request")


async def test_parameters_in_the_url_are_refused(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    refused(await post(oauth, "/oauth/token?client_secret=x", auth=tenant.basic), 400, "invalid_request")


async def test_only_post_is_allowed(oauth: httpx.AsyncClient) -> None:
    answer = await oauth.get("/oauth/token")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_an_unreachable_database_is_a_503(settings: Settings, tmp_path: object) -> None:
    unreachable = Database(f"postgresql://nobody@/nothing?host={tmp_path}")
    app = Starlette(routes=routes(unreachable, Admission(unreachable, settings), settings))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service.test") as oauth:
        answer = await post(oauth, auth=(new_client_id(), new_client_secret()))
    refused(answer, 503, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_refusals_never_repeat_a_secret(oauth: httpx.AsyncClient, tenant: Tenant) -> None:
    secret = tenant.secret.client_secret
    for answer in (
        await post(oauth, auth=(tenant.app + "x", secret)),
        await post(oauth, auth=tenant.basic, scope=secret),
        await post(oauth, auth=tenant.basic, resource=secret),
        await post(oauth, auth=tenant.basic, grant_type=secret),
        await post(oauth, auth=tenant.basic, client_secret=secret),
    ):
        assert answer.status_code in (400, 401)
        assert secret not in answer.text + str(answer.headers)


async def test_tokens_and_secrets_are_stored_only_as_hashes(
    oauth: httpx.AsyncClient, db: Database, tenant: Tenant
) -> None:
    token = await token_of(oauth, tenant)
    for table in ("tokens", "app_secrets", "audit_entries", "events", "failed_attempts"):
        rows = await db.fetch(f"SELECT t::text FROM {table} t")
        text = "\n".join(row[0] for row in rows)
        assert token not in text
        assert tenant.secret.client_secret not in text
