"""What is somebody else's looks like nothing at all: over every declared page and form."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from stoa.accounts.ownership import give, take
from stoa.db.pool import Database
from stoa.portal.guard import form_token
from stoa.portal.pages import Form, Page, Who
from stoa.portal.site_map import FORMS, PAGES
from stoa.settings import Settings, secret_key
from tests.portal.people import FROM_HERE, Somebody, as_operator
from tests.portal.places import owned, places_of

NOWHERE = {"app_id": 2**60, "handle": "no-such-store"}
OWNED = [pytest.param(target, id=target.name) for target in (*PAGES, *FORMS) if owned(target)]


async def ask(person: Somebody, target: Page | Form, places: Mapping[str, Any]) -> tuple[int, str]:
    path = target.address(places)
    if isinstance(target, Page):
        answer = await person.client.get(path)
    else:
        token = form_token(secret_key(person.application.settings), person.client.cookies["stoa_session"])
        answer = await person.client.post(path, data={"_token": token}, headers=FROM_HERE)
    plain = re.sub(r'(nonce|value)="[^"]*"', "", answer.text)
    return answer.status_code, re.sub(r"/portal/[^\" ]*", "", plain)


@pytest.mark.parametrize("target", OWNED)
async def test_another_accounts_things_are_as_unknown_as_what_never_was(
    maria: Somebody, zeno: Somebody, db: Database, target: Page | Form
) -> None:
    places = await places_of(maria, db)
    theirs = await ask(zeno, target, places)
    assert theirs[0] == 404
    assert theirs == await ask(zeno, target, places | NOWHERE)


@pytest.mark.parametrize("target", OWNED)
async def test_a_viewer_may_look_and_not_touch(
    maria: Somebody, zeno: Somebody, db: Database, settings: Settings, target: Page | Form
) -> None:
    places = await places_of(maria, db)
    by = as_operator(db, settings)
    await give(by, zeno.email, store=places["handle"], app=str(places["app_id"]), role="viewer")
    status, text = await ask(zeno, target, places)
    allowed = isinstance(target, Page) or target.viewers
    assert (status in (200, 303, 422)) if allowed else (status == 403), text
    await take(by, zeno.email, store=places["handle"], app=str(places["app_id"]))
    assert (await ask(zeno, target, places))[0] == 404


@pytest.mark.parametrize("value", [0, 2**63, 2**64, 10**30])
async def test_a_number_that_no_app_can_have_is_not_found(maria: Somebody, value: int) -> None:
    await maria.open(f"/portal/apps/{value}")
    assert maria.seen.status_code == 404


@pytest.mark.parametrize("handle", ["%00", "UPPER", "a%20b", "%F0%9F%8F%9B", "-x", "x" * 300])
async def test_a_text_that_is_no_handle_is_not_found(maria: Somebody, handle: str) -> None:
    await maria.open(f"/portal/stores/{handle}")
    assert maria.seen.status_code == 404


async def test_another_persons_session_cannot_be_ended(maria: Somebody, zeno: Somebody) -> None:
    await zeno.open("/portal/account")
    await zeno.send(f"/portal/account/sessions/{maria.session_id}/end")
    assert zeno.seen.status_code == 404
    await maria.open("/portal/account")
    assert maria.seen.status_code == 200


async def test_an_operators_page_is_nothing_to_others(maria: Somebody) -> None:
    for page in PAGES:
        if page.who is Who.OPERATOR:
            await maria.open(re.sub(r"{[^}]+}", "1", page.path))
            assert maria.seen.status_code == 404, page.name
