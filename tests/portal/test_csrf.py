"""Forms work only from a page of the same session: every declared form against forgeries of its token and of its origin."""

import re

import msgspec
import pytest

from stoa.access import audit
from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.kit.csrf import form_token
from stoa.portal.kit.pages import Audience
from stoa.portal.site_map import FORMS, PAGES
from stoa.secret_keys import Keys
from stoa.settings import Settings, secret_key
from tests.portal.path_params import browser_for, path_params_for
from tests.support.hostile import share_of
from tests.support.people import HOST, SAME_ORIGIN, User, browser

FORGERIES: dict[str, dict[str, str]] = {
    "another site": {"sec-fetch-site": "cross-site"},
    "a subdomain of the same site": {"sec-fetch-site": "same-site"},
    "another origin": {"origin": "https://evil.example.com"},
    "the same host on another port": {"origin": f"{HOST}:8081"},
    "an opaque origin": {"origin": "null"},
    "an invalid origin": {"origin": "http://["},
}
AUDIENCES = sorted({form.audience for form in FORMS}, key=lambda audience: audience.name)


def test_every_form_has_its_own_path() -> None:
    assert len({form.path for form in FORMS}) == len(FORMS)


@pytest.mark.parametrize("audience", AUDIENCES)
async def test_a_forged_form_is_refused_and_changes_nothing(
    application: Application, db: Database, settings: Settings, audience: Audience
) -> None:
    client, params = await browser_for(audience, application, db)
    session = client.cookies["stoa_session"]
    key = secret_key(settings)
    before = await audit.head(db, audit.SERVICE)
    valid = form_token(key, session)
    tokens = {
        "no token": None,
        "an empty token": "",
        "an invalid token": "AAAA",
        "a token of another session": form_token(key, "another session"),
        "a token made with another key": form_token(Keys(b"x" * 32), session),
        "a truncated token": valid[:-4],
        "a token that is not ASCII": "ä",
    }
    forms = [form for form in FORMS if form.audience is audience]
    for number, form in enumerate(forms):
        path = form.url(params)
        for forgery, token in share_of(number, tokens.items()):
            data = {"x": "1"} if token is None else {"_token": token}
            response = await client.post(path, data=data, headers=SAME_ORIGIN)
            assert response.status_code == 403, f"{form.name}: {forgery}"
        for forgery, headers in share_of(number, FORGERIES.items()):
            response = await client.post(path, data={"_token": valid}, headers={**SAME_ORIGIN, **headers})
            assert response.status_code == 403, f"{form.name}: {forgery}"
        in_query = await client.post(f"{path}?_token={valid}", data={"x": "1"}, headers=SAME_ORIGIN)
        assert in_query.status_code == 403, form.name
    assert await audit.head(db, audit.SERVICE) == before
    # Without these headers, the token alone is enough.
    response = await client.post(forms[0].url(params), data={"_token": valid})
    assert response.status_code in (200, 303, 404, 422)
    await client.aclose()


async def test_every_form_on_every_page_has_a_token(maria: User, db: Database) -> None:
    params = await path_params_for(maria, db)
    for page in PAGES:
        if page.audience is Audience.SIGNED_IN:
            text = (await maria.open(page.url(params))).text
            assert len(re.findall(r'<form method="post"', text)) == text.count('name="_token"')


@pytest.mark.parametrize("origin", ["https://portal.example.com", "https://PORTAL.example.com"])
async def test_forms_work_behind_a_proxy_that_changes_the_host(settings: Settings, maria: User, origin: str) -> None:
    application = Application(msgspec.structs.replace(settings, public_url="https://portal.example.com"))
    async with browser(application) as client:
        await client.get("/portal/sign-in")
        headers = {"origin": origin, "sec-fetch-site": "same-origin"}
        response = await client.post("/portal/sign-in", data={"_token": "x"}, headers=headers)
        assert "expired" in response.text, "the origin passed, the token did not"
        response = await client.post(
            "/portal/sign-in", data={"_token": "x"}, headers={"origin": "https://x.example.com"}
        )
        assert "another site" in response.text
    await application.close()
