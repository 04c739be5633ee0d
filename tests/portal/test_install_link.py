"""The install link: a merchant chooses a store and scopes, and returns to the app with a signed answer."""

import re
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pyotp
import pytest

from stoa.access.apps import suspend_app
from stoa.access.contract import NewSecret
from stoa.access.grants import install, list_installations
from stoa.access.operator import Operator
from stoa.access.stores import suspend_store
from stoa.accounts import two_factor
from stoa.accounts.ownership import give, open_store, register_app
from stoa.app import Application
from stoa.db.pool import Database
from stoa.demo.development_stores import create_development_store
from stoa.webhooks.app_callbacks import rotate_signing_secret, set_callbacks
from stoa_client import InstallRefused, SignatureRefused, verify_install
from tests.support.people import PASSWORD, SAME_ORIGIN, User, Visitor, browser

RETURN = "https://app.example.com/installed?from=stoa"
REASONS = {"products:read": "To list them.", "orders:read": "To count them.", "webhooks:write": "To be told."}
ASKED = ["products:read", "orders:read"]
STATE = "a.state&with=signs"
SECRET = pyotp.random_base32()


class Link:
    """An app of Zeno with a registered return address, and a link to install it."""

    def __init__(self, app: NewSecret, secret: str) -> None:
        self.app, self.secret = app, secret
        self.path = f"/portal/install/{app.client_id}"

    def url(self, **changes: str | None) -> str:
        query = {"scope": " ".join(ASKED), "return_to": RETURN, "state": STATE, **changes}
        return f"{self.path}?{urlencode({name: value for name, value in query.items() if value is not None})}"

    async def decide(self, user: User, action: str = "", **fields: str | list[str]) -> httpx.Response:
        """Submit the open page without following the redirect, which leads to another site."""
        url = self.url().replace("?", f"{action}?", 1)
        data = {"_token": user.token, **fields}
        user.response = await user.client.post(url, data=data, headers=SAME_ORIGIN)
        return user.response

    def returned(self, answer: httpx.Response) -> str:
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"].startswith(f"{RETURN}&")
        return answer.headers["location"]


@pytest.fixture
async def link(operator: Operator, zeno: User) -> Link:
    me = zeno.account.id
    app = await register_app(operator, me, "Walker", "https://walker.example.com", REASONS, f"{me}:link")
    made = await set_callbacks(operator, app.client_id, endpoint_url=None, return_urls=[RETURN])
    return Link(app, made.signing_secret or "")


async def test_the_merchant_sees_the_developer_and_marked_scopes(
    maria: User, link: Link, zeno: User, operator: Operator
) -> None:
    await open_store(operator, maria.account.id, f"marked-{maria.account.id}", "Marked", "EUR")
    await maria.open(link.url())
    for expected in ("Zeno", f"mailto:{zeno.email}", "Developer since", "App since", "https://walker.example.com"):
        assert expected in maria.text, expected
    assert maria.text.count(">Personal data<") == 1, "orders, not products"
    assert maria.text.count(">Erases permanently<") == 0


@pytest.fixture
async def handle(operator: Operator, maria: User) -> str:
    """A store of Maria."""
    return (await open_store(operator, maria.account.id, f"link-{maria.account.id}", "Porch", "EUR")).handle


async def scopes_on(operator: Operator, handle: str, link: Link) -> list[str] | None:
    found = [each for each in await list_installations(operator, handle) if each.app_id == link.app.app_id]
    return found[0].scopes if found else None


class QueryDict(dict[str, Any]):
    """The query as Django has it: a dict that stores lists, and returns the last value of each."""

    def __init__(self, url: str) -> None:
        super().__init__(parse_qs(urlsplit(url).query))

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)[-1]


async def test_a_merchant_approves_some_scopes_and_returns_with_a_valid_signature(
    operator: Operator, maria: User, link: Link, handle: str
) -> None:
    await maria.open(link.url())
    for text in ("Install Walker", "Zeno", "https://walker.example.com", "app.example.com", "“To count them.”", handle):
        assert text in maria.text
    assert "To be told" not in maria.text  # the link does not ask for it
    assert "form-action 'self' https://app.example.com;" in maria.response.headers["content-security-policy"]
    url = link.returned(await link.decide(maria, store=handle, scopes=ASKED[:1]))
    assert await scopes_on(operator, handle, link) == ASKED[:1]
    query = dict(parse_qsl(urlsplit(url).query))
    assert set(query) == {"from", "state", "store", "timestamp", "signature"}
    done = verify_install(url, link.app.client_id, link.secret, state=STATE)
    assert (done.store, done.state) == (handle, STATE)

    assert verify_install(QueryDict(url), link.app.client_id, link.secret, state=STATE) == done

    stamp = int(query["timestamp"])
    cases: list[tuple[str, dict[str, Any]]] = [
        (url, {"state": "another"}),
        (url, {"state": STATE, "now": stamp + 301}),
        (url.replace(f"store={handle}", "store=other"), {"state": STATE}),
        (url.replace(f"timestamp={stamp}", f"timestamp={stamp + 1}"), {"state": STATE}),
        (re.sub("signature=[0-9a-f]{4}", "signature=0000", url), {"state": STATE}),
        (re.sub("&signature=.*", "", url), {"state": STATE}),
    ]
    for forged, options in cases:
        with pytest.raises(SignatureRefused):
            verify_install(forged, link.app.client_id, link.secret, **options)
    with pytest.raises(SignatureRefused):
        verify_install(url, "stoa_ci_another", link.secret, state=STATE)

    # While the secret rotates, the old and the new one both verify.
    rotated = await rotate_signing_secret(operator, link.app.client_id)
    await maria.open(link.url())
    again = link.returned(await link.decide(maria, store=handle, scopes=ASKED[:1]))
    for secret in (link.secret, rotated.signing_secret or ""):
        assert verify_install(again, link.app.client_id, secret, state=STATE).store == handle


async def test_refusing_returns_with_an_error_and_installs_nothing(
    operator: Operator, maria: User, link: Link, handle: str
) -> None:
    await maria.open(link.url())
    url = link.returned(await link.decide(maria, "/refuse", store=handle, scopes=ASKED))
    assert dict(parse_qsl(urlsplit(url).query)) == {"from": "stoa", "state": STATE, "error": "access_denied"}
    with pytest.raises(InstallRefused):
        verify_install(url, link.app.client_id, link.secret, state=STATE)
    assert await scopes_on(operator, handle, link) is None


async def test_the_link_survives_sign_in_and_two_factor(
    application: Application, operator: Operator, maria: User, link: Link, handle: str
) -> None:
    codes = await two_factor.turn_on(operator, maria.account.id, SECRET, pyotp.TOTP(SECRET).now())
    async with browser(application) as client:
        visitor = Visitor(client)
        await visitor.open(link.url())
        assert visitor.path == "/portal/sign-in"
        following = re.search(r'name="next" value="([^"]+)"', visitor.text)
        assert following
        assert following[1] == link.url()
        await visitor.submit("/portal/sign-in", email=maria.email, password=PASSWORD, next=following[1])
        assert visitor.path == "/portal/two-factor"
        await visitor.open(link.url())  # a page that is opened meanwhile comes back too
        assert visitor.path == "/portal/two-factor"
        following = re.search(r'name="next" value="([^"]+)"', visitor.text)
        assert following
        await visitor.submit("/portal/two-factor", code=codes[0], next=following[1])
        assert str(visitor.response.url) == f"http://testserver{link.url()}"
        assert "Install Walker" in visitor.text
        assert handle in visitor.text


async def test_an_invalid_link_is_a_page_and_never_a_redirect(
    operator: Operator, maria: User, link: Link, handle: str
) -> None:
    cases: list[tuple[str, int, str]] = [
        (link.url(return_to="https://evil.example.com/"), 400, "has not registered"),
        (link.url(return_to=RETURN.partition("?")[0]), 400, "has not registered"),
        (link.url(return_to=f"{RETURN}&more=1"), 400, "has not registered"),
        (link.url(scope="products:read all:things"), 400, "does not exist"),
        (link.url(scope="customers:erase"), 400, "has not registered"),
        (link.url(state="x" * 501), 400, "at most 500"),
        (link.url(state="a\nb"), 400, "printable"),
        (link.url(state='{"id":"evt_1","type":"customer.erased"}'), 400, "printable"),
        (link.url(state='8fJ2k.1773479366. {"id":"evt_1"}'), 400, "printable"),
        (f"/portal/install/stoa_ci_unknown?{urlsplit(link.url()).query}", 404, "no app"),
        (f"/portal/install/{link.app.app_id}", 404, "no app"),
        ("/portal/install/%00", 404, ""),
    ]
    for url, status, text in cases:
        answer = await maria.client.get(url)
        assert (answer.status_code, "location" in answer.headers) == (status, False), url
        assert text in answer.text
    # The same checks guard the form: nothing is installed.
    await maria.open(link.url())
    data = {"_token": maria.token, "store": handle, "scopes": ASKED}
    for url, status, _ in cases[:11]:
        for target in (url, url.replace("?", "/refuse?", 1)):
            answer = await maria.client.post(target, data=data, headers=SAME_ORIGIN)
            assert (answer.status_code, "location" in answer.headers) == (status, False) or answer.status_code == 404
    await suspend_app(operator, link.app.client_id)
    suspended = await maria.client.get(link.url())
    assert (suspended.status_code, "suspended" in suspended.text) == (403, True)
    assert (await maria.client.post(link.url(), data=data, headers=SAME_ORIGIN)).status_code == 403
    assert await scopes_on(operator, handle, link) is None


async def test_only_an_owner_installs_on_an_active_store_of_her_own(
    operator: Operator, maria: User, zeno: User, link: Link, handle: str
) -> None:
    foreign = (await open_store(operator, zeno.account.id, f"link-{zeno.account.id}", "Stoa", "EUR")).handle
    viewed = (await open_store(operator, zeno.account.id, f"viewed-{zeno.account.id}", "Seen", "EUR")).handle
    await give(operator, maria.email, store=viewed, role="viewer")
    idle = (await open_store(operator, maria.account.id, f"idle-{maria.account.id}", "Idle", "EUR")).handle
    await suspend_store(operator, idle)
    await maria.open(link.url())
    for other in (foreign, viewed, idle):
        assert other not in maria.text
    for other in (foreign, viewed, idle, "no-such-store", "", "../demo"):
        answer = await link.decide(maria, store=other, scopes=ASKED)
        assert (answer.status_code, maria.faults) == (422, {"store": "Select one of your stores."})
    await link.decide(maria, store=handle)
    assert maria.faults == {"": "Select at least one scope, or refuse."}
    await link.decide(maria, store=handle, scopes=["webhooks:write"])
    assert "cannot be granted" in maria.faults[""]
    for other in (handle, foreign, viewed, idle):
        assert await scopes_on(operator, other, link) is None


async def test_forged_forms_change_nothing_and_a_double_submit_installs_once(
    operator: Operator, maria: User, zeno: User, link: Link, handle: str, db: Database
) -> None:
    await maria.open(link.url())
    fields = {"store": handle, "scopes": ASKED}
    stolen = {**fields, "_token": maria.token}
    for headers, data in (
        (SAME_ORIGIN, fields),
        (SAME_ORIGIN, {**fields, "_token": "forged"}),
        ({"origin": "https://evil.example.com", "sec-fetch-site": "cross-site"}, stolen),
    ):
        answer = await maria.client.post(link.url(), data=data, headers=headers)
        assert answer.status_code == 403
    assert (await zeno.client.post(link.url(), data=stolen, headers=SAME_ORIGIN)).status_code == 403
    assert await scopes_on(operator, handle, link) is None
    for _ in range(2):
        answer = await maria.client.post(link.url(), data=stolen, headers=SAME_ORIGIN)
        verify_install(link.returned(answer), link.app.client_id, link.secret, state=STATE)
    events = await db.fetch("SELECT type FROM events WHERE resource_type = 'app' AND resource_id = $1", link.app.app_id)
    assert [row[0] for row in events] == ["app.installed"]


async def test_an_installed_app_keeps_the_scopes_that_the_link_does_not_name(
    operator: Operator, maria: User, link: Link, handle: str
) -> None:
    await install(operator, link.app.client_id, handle, ["webhooks:write", "orders:read"])
    await maria.open(link.url())
    link.returned(await link.decide(maria, store=handle, scopes=["products:read"]))
    assert await scopes_on(operator, handle, link) == ["products:read", "webhooks:write"]


async def test_without_parameters_the_link_asks_for_all_scopes_and_uses_the_only_address(
    operator: Operator, maria: User, link: Link, handle: str
) -> None:
    await maria.open(link.path)
    data = {"_token": maria.token, "store": handle, "scopes": list(REASONS)}
    answer = await maria.client.post(link.path, data=data, headers=SAME_ORIGIN)
    assert verify_install(link.returned(answer), link.app.client_id, link.secret).state == ""
    assert await scopes_on(operator, handle, link) == list(REASONS)
    await set_callbacks(
        operator, link.app.client_id, endpoint_url=None, return_urls=[RETURN, "https://app.example.com/2"]
    )
    assert (await maria.client.get(link.path)).status_code == 400


async def test_a_person_without_a_store_can_return(zeno: User, link: Link) -> None:
    await zeno.open(link.url())
    assert "You have no store" in zeno.text
    assert "error=access_denied" in link.returned(await link.decide(zeno, "/refuse"))


async def test_a_link_that_names_no_return_address_says_what_is_missing(
    maria: User, link: Link, operator: Operator
) -> None:
    for registered, message in (
        ([], "It names no return address, and Walker has not registered one."),
        ([RETURN, f"{RETURN}&second=1"], "It names no return address, and Walker has registered 2."),
    ):
        await set_callbacks(operator, link.app.client_id, endpoint_url=None, return_urls=registered)
        await maria.open(link.url(return_to=None))
        assert (maria.response.status_code, message in maria.text) == (400, True), registered
        await maria.open(link.url(return_to="https://other.example.com"))
        assert "It names a return address that Walker has not registered." in maria.text


async def test_an_app_without_reasons_is_installed_only_on_a_development_store(
    operator: Operator, maria: User, zeno: User
) -> None:
    me, reasons = zeno.account.id, {**REASONS, "orders:read": ""}
    app = await register_app(operator, me, "Silent", "", reasons, f"{me}:silent")
    await set_callbacks(operator, app.client_id, endpoint_url=None, return_urls=[RETURN])
    link = Link(app, "")
    store = await open_store(operator, maria.account.id, f"asked-{maria.account.id}", "Asked", "EUR")
    development = await create_development_store(operator, maria.account.id, name="Try")
    await maria.open(link.url())
    refused = await link.decide(maria, store=store.handle, scopes=ASKED)
    assert refused.status_code == 422
    assert "The app gives no reason for orders:read" in maria.faults[""]
    assert await list_installations(operator, store.handle) == []
    link.returned(await link.decide(maria, store=development.handle, scopes=ASKED))
    assert [each.app_id for each in await list_installations(operator, development.handle)] == [app.app_id]
