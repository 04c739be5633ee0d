"""Hostile fields, bodies, hosts, cookies and query strings never cause a server error."""

import base64
import json
from typing import Any

import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.kit.csrf import form_token
from stoa.portal.kit.forms import MAX_BYTES
from stoa.portal.kit.pages import Form
from stoa.portal.site_map import FORMS
from stoa.settings import Settings, secret_key
from tests.portal.installed_app import InstalledApp
from tests.portal.path_params import browser_for
from tests.support.hostile import share_of
from tests.support.people import SAME_ORIGIN, User, browser
from tests.support.shops import SHIRT, Shop

SECTIONS = ("products", "orders", "customers", "imports", "audit")
EVERY_FORM = [pytest.param(form, id=form.name) for form in FORMS]


@pytest.mark.parametrize("form", EVERY_FORM)
async def test_hostile_fields_never_cause_a_server_error(
    application: Application, db: Database, settings: Settings, form: Form
) -> None:
    client, params = await browser_for(form.audience, application, db)
    path = form.url(params)
    session = client.cookies["stoa_session"]
    names = form.fields.__struct_fields__ or ("anything",)
    values = [
        "",
        "%00",
        "%ED%A0%80",
        "%F0%9F%8F%9B",
        "a" * 5_000,
        "-1",
        "9" * 40,
        "%0D%0A",
        "<b>&\"'",
        "%E2%80%AE",
        "on",
    ]
    token = form_token(secret_key(settings), session).replace("=", "%3D")
    media = {"content-type": "application/x-www-form-urlencoded"}
    for value in share_of(FORMS.index(form), values):
        fields = "&".join(f"{name}={value}&{name}%5Bx%5D={value}" for name in names)
        response = await client.post(path, content=f"_token={token}&{fields}", headers={**SAME_ORIGIN, **media})
        assert response.status_code < 500, f"{value}: {response.text}"
        session = client.cookies.get("stoa_session") or session
        token = form_token(secret_key(settings), session).replace("=", "%3D")
    huge = await client.post(
        path, content=f"{names[0]}={'a' * MAX_BYTES}&_token={token}", headers={**SAME_ORIGIN, **media}
    )
    assert huge.status_code in (303, 400, 404), "it is not read; a form before may have ended the session"
    await client.aclose()


@pytest.mark.parametrize(
    ("content", "media"),
    [
        (b"_token=%zz", "application/x-www-form-urlencoded"),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % n for n in range(500)), "application/x-www-form-urlencoded"),
        (b"a=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b'{"name": 1}', "application/json"),
        (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x"),
        (b"", "application/x-www-form-urlencoded"),
    ],
)
async def test_a_malformed_form_is_refused(maria: User, content: bytes, media: str) -> None:
    headers = {**SAME_ORIGIN, "content-type": media}
    response = await maria.client.post("/portal/account/name", content=content, headers=headers)
    assert response.status_code in (400, 403)


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "evil.example.com:99999", '"><script>'])
async def test_a_hostile_host_never_breaks_a_page(maria: User, host: str) -> None:
    response = await maria.client.get("/portal/apps", headers={"host": host})
    assert response.status_code < 500
    assert "<script>" not in response.text


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "x:abc", '"><script>', ""])
@pytest.mark.parametrize(
    "path", ["/docs", "/problems/not_found", "/nothing", "/.well-known/oauth-authorization-server"]
)
async def test_a_hostile_host_never_breaks_a_public_page(application: Application, path: str, host: str) -> None:
    async with browser(application) as client:
        response = await client.get(path, headers={"host": host})
        assert response.status_code < 500
        assert "<script>" not in response.text or "json" in response.headers["content-type"]


@pytest.mark.parametrize("cookie", ["x", "%00", "a" * 4_000, '"', "\\", ";;"])
async def test_a_hostile_cookie_counts_as_a_guest(application: Application, cookie: str) -> None:
    async with browser(application) as client:
        headers = {"cookie": f"stoa_session={cookie}; stoa_notice={cookie}; stoa_theme={cookie}"}
        response = await client.get("/portal/sign-in", headers=headers)
        assert response.status_code == 200


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    "query",
    [
        "q=%00",
        "q=!!!",
        "q=" + "a" * 5_000,
        "q=%27%20OR%201%3D1--",
        "q=<script>alert(1)</script>",
        "status=nothing",
        "sort=price;drop",
        "cursor=x",
        "cursor=" + "A" * 6_000,
        "cursor=W3t9LGZhbHNlLFsxXV0",
        "cursor=W3sic29ydCI6Ii1pZCIsImxpbWl0IjoiMjUifSxmYWxzZSxbMTg0NDY3NDQwNzM3MDk1NTE2MTVdXQ",
        "before=-1",
        "before=99999999999999999999999999",
        "before=%EF%BC%91",
        "in_stock=perhaps",
        "customer_id=abc",
        "number=99999999999999999999",
        "%ff=%ff",
        "&".join(f"a{n}=1" for n in range(300)),
    ],
)
async def test_a_hostile_query_string_never_breaks_a_list(
    shop: Shop, maria: User, store_url: str, section: str, query: str
) -> None:
    await shop.add(SHIRT)
    await maria.open(f"{store_url}/{section}?{query}")
    assert maria.response.status_code == 200
    assert "<script>alert" not in maria.response.text


FORGED: list[list[Any]] = [
    [{"sort": "-id", "q": "a\x00b"}, False, [1]],
    [{"sort": "-id", "sku": "a\x00b", "event": "a\x00b"}, False, [1]],
    [{"sort": "-id", "\x00": "a"}, False, [1]],
    [{"sort": "-id"}, False, ["a\x00b"]],
    [{"sort": "-id"}, False, [2**63]],
    [{"sort": "-id"}, False, [[[]]]],
    [{"sort": "-id"}, False, ["x" * 10_000]],
    [{"sort": "-id", "event_id": "x" * 10_000}, False, [1]],
    [{"sort": "name"}, False, ["\x00", 1]],
    [{"sort": "-updated_at"}, False, ["0001-01-01T00:00:00+14:00", 1]],
]


@pytest.mark.parametrize("value", FORGED)
async def test_a_forged_cursor_shows_the_first_page(
    shop: Shop, maria: User, app: InstalledApp, store_url: str, value: list[Any]
) -> None:
    order_id, webhook_id = (await shop.fill())["order_id"], await app.add_deliveries()
    cursor = base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
    urls = [f"{store_url}/{section}?cursor={cursor}" for section in ("products", "orders", "customers")]
    urls.append(app.hook(webhook_id, f"/deliveries?cursor={cursor}"))
    for url in urls:
        await maria.open(url)
        assert maria.response.status_code == 200, url[:60]
        assert "The cursor " in maria.response.text, url[:60]
    for name in ("timeline", "suspected", "copy"):
        await maria.open(f"{store_url}/orders/{order_id}?{name}={cursor}")
        assert maria.response.status_code == 200, name
