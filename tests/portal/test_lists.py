"""The lists of apps and stores: what fails comes first with its error, search and pages, and requests as a line."""

import re

from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_store, register_app
from stoa.portal.kit.charts import sparkline
from tests.portal.installed_app import InstalledApp
from tests.portal.path_params import REASONS, add_usage
from tests.portal.test_failing_receivers import fail
from tests.support.people import User


def names(user: User) -> list[str]:
    return re.findall(r'<tr><td><a href="[^"]+">([^<]+)</a>', user.text)


async def test_the_failing_one_of_thirty_apps_is_first_with_its_error_and_a_link(
    app: InstalledApp, operator: Operator
) -> None:
    user = app.user
    webhook_id = await fail(operator, app.store_id, app.app_id, status=503)
    for n in range(29):
        await register_app(operator, user.account.id, f"Other {n}", "", REASONS, f"{user.account.id}:other-{n}")
    await user.open("/portal/apps")
    assert (names(user)[0], len(names(user))) == ("Walker", 25)
    assert f'href="{app.hook(webhook_id)}">Status 503</a>' in user.text
    assert "hooks.example.com:8443" in user.text
    assert "secret-path" not in user.text
    assert "30 apps" in user.text
    await user.open("/portal/apps?page=2")
    assert len(names(user)) == 5
    await user.open("/portal/apps?q=OTHER")
    assert len(names(user)) == 25
    assert 'href="?q=OTHER&page=2"' in user.text, "the next page keeps the search"
    await user.open(f"/portal/apps?q={app.client_id[:12]}")
    assert "Walker" in names(user)
    for hostile in ("q=%25", "q=%00", "page=x", "page=99", "q='"):
        assert (await user.open(f"/portal/apps?{hostile}")).status_code == 200
    await user.open("/portal/apps?q=no-such-app")
    assert "No results" in user.text


async def test_a_store_with_a_failing_app_is_first(app: InstalledApp, operator: Operator) -> None:
    user = app.user
    for n in range(29):
        await open_store(operator, user.account.id, f"a-{user.account.id}-{n}", f"Aside {n}", "EUR")
    await fail(operator, app.store_id, app.app_id, error="connection_refused")
    await user.open("/portal/stores")
    assert (names(user)[0].startswith("Hooks"), len(names(user))) == (True, 25)
    assert f'href="/portal/stores/{app.handle}/apps/{app.app_id}">Walker</a><small>Connection refused' in user.text
    assert "hooks.example.com" not in user.text, "a merchant does not see the receivers of an app"
    await user.open("/portal/stores?q=aside&page=2")
    assert len(names(user)) == 4
    await user.open(f"/portal/stores?q={app.handle}")
    assert len(names(user)) == 1


async def test_requests_are_shown_as_a_line(app: InstalledApp, operator: Operator) -> None:
    await add_usage(operator, app.store_id, app.app_id)
    requests, errors = sum(40 + ago for ago in range(14)), sum(ago % 3 for ago in range(14))
    for page in ("/portal/apps", "/portal/stores"):
        await app.user.open(page)
        assert f"<span>{requests}<small>{100 * errors / requests:.1f} % failed" in app.user.text
        assert '<path d="M0 1L' in app.user.text
    other = await register_app(operator, app.user.account.id, "Quiet", "", REASONS, f"{app.user.account.id}:quiet")
    await install(operator, other.client_id, app.handle)
    await app.user.open("/portal/apps?q=quiet")
    assert 'Requests, 14 days" class="extra"><span class="soft">None' in app.user.text


def test_a_sparkline_stays_in_its_box() -> None:
    assert sparkline([0, 0, 0]) == "M0 23L48 23L96 23"
    assert sparkline([1, 2, 4]) == "M0 17.5L48 12L96 1"
    assert sparkline([7]) == "M0 1"
