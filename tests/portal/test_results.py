"""After a form comes a redirect: a reload never submits again, and a secret is shown after one reload, not after two."""

import re
from typing import Any

from stoa.app import Application
from stoa.db.pool import Database
from stoa.operations.maintenance import maintain
from stoa.portal.kit.pages import Audience
from stoa.portal.site_map import FORMS
from tests.portal.installed_app import InstalledApp
from tests.portal.path_params import path_params_for
from tests.portal.webhook_data import add_subscription
from tests.support.people import User, create_user, signed_in_browser

_SECRET = re.compile(r"stoa_cs_\w+|whsec_[A-Za-z0-9+/=]+")


async def value(db: Database, sql: str, *args: Any) -> Any:
    return (await db.fetch(sql, *args))[0][0]


async def secrets_after(user: User, form: str, reloads: int = 2) -> list[str]:
    """Submit a form that shows a secret; return what each page shows: after the form, and after each reload."""
    await user.submit(form, grace_hours="24")
    assert user.response.history[0].status_code == 303
    url = str(user.response.url)
    shown = ["".join(_SECRET.findall(user.text)[:1])]
    for _ in range(reloads):
        await user.open(url)
        shown.append("".join(_SECRET.findall(user.text)[:1]))
    return shown


async def test_a_new_secret_survives_one_reload_and_is_not_rotated_again(app: InstalledApp, db: Database) -> None:
    user, webhook_id = app.user, await add_subscription(await app.at_store(), app.store_id, app.app_id)
    pages = {f"{app.path}/credentials": f"{app.path}/secret", app.hook(webhook_id): app.hook(webhook_id, "/secret")}
    for page, form in pages.items():
        await user.open(page)
        first, second, third = await secrets_after(user, form)
        assert (first == second, bool(first), third) == (True, True, "")
        assert user.path == page
        assert "already shown" in user.notice
        assert user.response.history, "the used address leads to the page"
    assert await value(db, "SELECT count(*) FROM app_secrets WHERE app_id = $1", app.app_id) == 2


async def test_a_kept_result_belongs_to_its_session_and_path_and_is_encrypted(
    app: InstalledApp, application: Application, db: Database
) -> None:
    user = app.user
    await user.open(f"{app.path}/credentials")
    [secret] = await secrets_after(user, f"{app.path}/secret", reloads=0)
    url = str(user.response.url)
    stored = await value(db, "SELECT string_agg(encode(page, 'escape'), '') FROM account_results")
    assert secret not in stored
    other = await signed_in_browser(application, db, user.account)
    await other.open(url)
    assert secret not in other.text
    await other.client.aclose()
    await user.open(url.replace("/secret?", "/credentials?"))
    assert secret not in user.text
    await db.execute("UPDATE account_results SET expires_at = now() - interval '1 second'")
    await user.open(url)
    assert secret not in user.text
    await maintain(db)
    assert await value(db, "SELECT count(*) FROM account_results") == 0


async def test_a_test_send_can_be_reloaded_without_another_send(app: InstalledApp) -> None:
    user, webhook_id = app.user, await add_subscription(await app.at_store(), app.store_id, app.app_id)
    await user.open(app.hook(webhook_id))
    await user.submit(app.hook(webhook_id, "/test"))
    assert user.response.history[0].status_code == 303
    shown = user.text
    await user.open(str(user.response.url))
    assert user.text == shown


async def test_the_address_of_a_form_leads_to_its_page(application: Application, db: Database) -> None:
    """A bookmark of it, or a reload after its result, is not an error."""
    user = await create_user(application, db, operator=True)
    params = await path_params_for(user, db)
    for form in FORMS:
        if form.path == "/portal/stores/development":
            continue  # a store may have this handle
        if form.path != form.page.path and form.audience in (Audience.SIGNED_IN, Audience.OPERATOR):
            response = await user.client.get(form.url(params))
            assert (response.status_code, response.headers.get("location")) == (303, form.page.url(params)), form.name
    foreign = await user.client.get(f"/portal/apps/{2**60}/secret")
    assert foreign.status_code == 404
    await user.client.aclose()
