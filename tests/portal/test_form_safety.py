"""No form does anything unless a page of the same session sent it: every declared form against every forgery."""

import re

import httpx
import pyotp
import pytest

from stoa.access import audit
from stoa.accounts import second_factor
from stoa.accounts.sessions import sign_in
from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.guard import form_token
from stoa.portal.pages import Form, Who
from stoa.portal.site_map import FORMS, PAGES
from stoa.settings import Settings, secret_key
from tests.portal.people import FROM_HERE, HOST, PASSWORD, Somebody, as_operator, browser, new_peer, somebody
from tests.portal.places import places_of

FORGERIES: dict[str, dict[str, str]] = {
    "another site's page": {"sec-fetch-site": "cross-site"},
    "a store's own host": {"sec-fetch-site": "same-site"},
    "another origin": {"origin": "https://evil.example.com"},
    "the same host on another port": {"origin": f"{HOST}:8081"},
    "an origin that hides": {"origin": "null"},
    "an origin that is none": {"origin": "http://["},
}
EVERY_FORM = [pytest.param(form, id=form.name) for form in FORMS]


def test_every_form_has_its_own_address() -> None:
    assert len({form.path for form in FORMS}) == len(FORMS)


async def sender(application: Application, db: Database, form: Form) -> tuple[httpx.AsyncClient, str]:
    """A browser that may send the form, and the address to send it to."""
    owner = await somebody(application, db, operator=True)
    path = form.address({**await places_of(owner, db), "token": "no-such-link"})
    if form.who in (Who.PERSON, Who.OPERATOR):
        return owner.client, path
    if form.who is Who.HALFWAY:
        by = as_operator(db, application.settings)
        secret = second_factor.new_secret()
        await second_factor.turn_on(by, owner.account.id, secret, pyotp.TOTP(secret).now())
        opened = await sign_in(by, db, owner.email, PASSWORD, peer=new_peer(), agent="")
        owner.client.cookies.set("stoa_session", opened.token, domain="testserver.local")
        return owner.client, path
    await owner.client.aclose()
    client = browser(application)
    await client.get("/portal/sign-in")
    return client, path


@pytest.mark.parametrize("form", EVERY_FORM)
async def test_a_forged_form_is_refused_and_changes_nothing(
    application: Application, db: Database, settings: Settings, form: Form
) -> None:
    client, path = await sender(application, db, form)
    session = client.cookies["stoa_session"]
    key = secret_key(settings)
    before = await audit.head(db, audit.SERVICE)
    good = form_token(key, session)
    tokens = {
        "no token": None,
        "an empty one": "",
        "nonsense": "AAAA",
        "another session's": form_token(key, "another session"),
        "one made with another key": form_token(b"x" * 32, session),
        "a cut one": good[:-4],
        "not even ascii": "ä",
    }
    for what, token in tokens.items():
        data = {"x": "1"} if token is None else {"_token": token}
        answer = await client.post(path, data=data, headers=FROM_HERE)
        assert answer.status_code == 403, what
    for what, headers in FORGERIES.items():
        answer = await client.post(path, data={"_token": good}, headers={**FROM_HERE, **headers})
        assert answer.status_code == 403, what
    in_the_address = await client.post(f"{path}?_token={good}", data={"x": "1"}, headers=FROM_HERE)
    assert in_the_address.status_code == 403
    assert await audit.head(db, audit.SERVICE) == before
    # A browser that tells nothing of itself is let through by its token alone.
    answer = await client.post(path, data={"_token": good})
    assert answer.status_code in (200, 303, 404, 422)
    await client.aclose()


async def test_every_form_on_every_page_carries_a_token(maria: Somebody, db: Database) -> None:
    places = await places_of(maria, db)
    for page in PAGES:
        if page.who is Who.PERSON:
            text = (await maria.open(page.address(places))).text
            assert len(re.findall(r'<form method="post"', text)) == text.count('name="_token"')


@pytest.mark.parametrize("form", EVERY_FORM)
async def test_hostile_fields_are_never_our_fault(
    application: Application, db: Database, settings: Settings, form: Form
) -> None:
    client, path = await sender(application, db, form)
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
    for value in values:
        fields = "&".join(f"{name}={value}&{name}%5Bx%5D={value}" for name in names)
        answer = await client.post(path, content=f"_token={token}&{fields}", headers={**FROM_HERE, **media})
        assert answer.status_code < 500, f"{value}: {answer.text}"
        session = client.cookies.get("stoa_session") or session
        token = form_token(secret_key(settings), session).replace("=", "%3D")
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
async def test_a_body_that_is_no_form_is_refused(maria: Somebody, content: bytes, media: str) -> None:
    headers = {**FROM_HERE, "content-type": media}
    answer = await maria.client.post("/portal/account/name", content=content, headers=headers)
    assert answer.status_code in (400, 403)


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "evil.example.com:99999", '"><script>'])
async def test_a_hostile_host_breaks_nothing(maria: Somebody, host: str) -> None:
    answer = await maria.client.get("/portal/apps", headers={"host": host})
    assert answer.status_code < 500
    assert "<script>" not in answer.text


@pytest.mark.parametrize("cookie", ["x", "%00", "a" * 4_000, '"', "\\", ";;"])
async def test_a_hostile_cookie_is_a_guest(application: Application, cookie: str) -> None:
    async with browser(application) as client:
        headers = {"cookie": f"stoa_session={cookie}; stoa_notice={cookie}; stoa_theme={cookie}"}
        answer = await client.get("/portal/sign-in", headers=headers)
        assert answer.status_code == 200


async def test_nobody_else_can_put_words_into_our_mouth(application: Application) -> None:
    async with browser(application) as client:
        forged = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAU2VuZCB1cyB5b3VyIHBhc3N3b3Jk"
        answer = await client.get("/portal/sign-in", headers={"cookie": f"stoa_notice={forged}"})
        assert "Send us" not in answer.text
