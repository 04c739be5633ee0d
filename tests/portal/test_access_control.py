"""Roles: every declared page and form of another account is not found, and viewers cannot change anything."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from stoa.accounts.ownership import give, take
from stoa.db.pool import Database
from stoa.portal.csrf import form_token
from stoa.portal.pages import Audience, Form, Page
from stoa.portal.site_map import FORMS, PAGES
from stoa.settings import Settings, secret_key
from tests.portal.path_params import is_owned, path_params_for
from tests.support.people import SAME_ORIGIN, User, as_operator

NONEXISTENT = {"app_id": 2**60, "handle": "no-such-store"}
OWNED = [pytest.param(target, id=target.name) for target in (*PAGES, *FORMS) if is_owned(target)]


async def request(user: User, target: Page | Form, params: Mapping[str, Any]) -> tuple[int, str]:
    path = target.url(params)
    if isinstance(target, Page):
        response = await user.client.get(path)
    else:
        token = form_token(secret_key(user.application.settings), user.client.cookies["stoa_session"])
        response = await user.client.post(path, data={"_token": token}, headers=SAME_ORIGIN)
    text = re.sub(r'(nonce|value)="[^"]*"', "", response.text)
    return response.status_code, re.sub(r"/portal/[^\" ]*", "", text)


@pytest.mark.parametrize("target", OWNED)
async def test_pages_of_another_account_look_like_pages_that_do_not_exist(
    maria: User, zeno: User, db: Database, target: Page | Form
) -> None:
    params = await path_params_for(maria, db)
    foreign = await request(zeno, target, params)
    assert foreign[0] == 404
    assert foreign == await request(zeno, target, params | NONEXISTENT)


@pytest.mark.parametrize("target", OWNED)
async def test_a_viewer_can_open_pages_but_not_submit_forms(
    maria: User, zeno: User, db: Database, settings: Settings, target: Page | Form
) -> None:
    params = await path_params_for(maria, db)
    by = as_operator(db, settings)
    await give(by, zeno.email, store=params["handle"], app=str(params["app_id"]), role="viewer")
    status, text = await request(zeno, target, params)
    assert (status in (200, 303)) if isinstance(target, Page) else (status == 403), text
    await take(by, zeno.email, store=params["handle"], app=str(params["app_id"]))
    assert (await request(zeno, target, params))[0] == 404


@pytest.mark.parametrize("value", [0, 2**63, 2**64, 10**30])
async def test_an_invalid_app_id_is_not_found(maria: User, value: int) -> None:
    await maria.open(f"/portal/apps/{value}")
    assert maria.response.status_code == 404


@pytest.mark.parametrize("handle", ["%00", "UPPER", "a%20b", "%F0%9F%8F%9B", "-x", "x" * 300])
async def test_an_invalid_handle_is_not_found(maria: User, handle: str) -> None:
    await maria.open(f"/portal/stores/{handle}")
    assert maria.response.status_code == 404


async def test_a_session_of_another_account_cannot_be_ended(maria: User, zeno: User) -> None:
    await zeno.open("/portal/account")
    await zeno.submit(f"/portal/account/sessions/{maria.session_id}/end")
    assert zeno.response.status_code == 404
    await maria.open("/portal/account")
    assert maria.response.status_code == 200


async def test_operator_pages_are_not_found_for_others(maria: User) -> None:
    for page in PAGES:
        if page.audience is Audience.OPERATOR:
            await maria.open(re.sub(r"{[^}]+}", "1", page.path))
            assert maria.response.status_code == 404, page.name
