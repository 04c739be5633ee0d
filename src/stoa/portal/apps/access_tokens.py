"""Short-lived access tokens for developers, for a terminal and for the console of the API reference."""

from typing import Annotated

import msgspec
from starlette.responses import Response

from stoa.access.contract import TooManyAttempts
from stoa.access.grants import issue_token
from stoa.access.rules import listed
from stoa.accounts.queries import MAY_CHANGE
from stoa.accounts.rate_limit import limit_rate
from stoa.db.fan_out import FanOut, in_order
from stoa.portal.apps.impersonation import installed_store
from stoa.portal.apps.snippets import Snippets
from stoa.portal.kit.forms import FormError, text
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import Visit

pages = Pages()
LIFETIME_S = 15 * 60
_MAX_STORES = 500


class CallableStore(msgspec.Struct):
    """A store that the account can call as one of its apps; `own` if the account also has a role on the store."""

    app_id: int
    app_name: str
    handle: str
    name: str
    granted: list[str]
    own: bool


# The account's own stores come first, so that the limit hides none of them.
CALLABLE_STORES = FanOut(
    CallableStore,
    f"""SELECT a.id AS app_id, a.name AS app_name, s.handle, s.name, i.scopes AS granted, m.store_id IS NOT NULL AS own
         FROM account_apps o JOIN apps a ON a.id = o.app_id
              JOIN installations i ON i.app_id = a.id JOIN stores s ON s.id = i.store_id
              LEFT JOIN account_stores m ON m.account_id = o.account_id AND m.store_id = s.id
        WHERE o.account_id = $1 AND {MAY_CHANGE} AND a.status = 'active' AND s.status = 'active'
              AND s.id <> ALL ($3::bigint[])
        ORDER BY own DESC, a.name, a.id, s.handle LIMIT $2""",
    in_order("-own", "app_name", "app_id", "handle", limit=2, unique=["app_id", "handle"]),
    unbound="an app's developer sees all stores that have it installed",
)


class ListedStore(msgspec.Struct):
    handle: str
    name: str
    own: bool
    scopes: list[str]


class ListedApp(msgspec.Struct):
    """An app of the account, with the stores that it can call."""

    id: int
    name: str
    stores: list[ListedStore]


class AccessTokenForm(msgspec.Struct):
    store: Annotated[str, text("Choose a store.", min_length=1, max_length=63)]


@pages.page("/access-token", nav="list_apps")
async def access_tokens(visit: Visit) -> View | Response:
    apps: dict[int, ListedApp] = {}
    for row in await CALLABLE_STORES.all(visit.everywhere, visit.me.account_id, _MAX_STORES):
        app = apps.setdefault(row.app_id, ListedApp(row.app_id, row.app_name, []))
        app.stores.append(ListedStore(row.handle, row.name, row.own, listed(None, row.granted)))
    if visit.wants_json:
        return _json({"form_token": visit.token(), "apps": list(apps.values())})
    return View("apps/access_tokens.html", {"apps": list(apps.values()), "minutes": LIFETIME_S // 60})


@pages.form("/apps/{app_id:int}/access-token", on=access_tokens)
async def issue_access_token(visit: Visit, form: AccessTokenForm) -> View | Response:
    """Issue a token of the app for one store; the store's audit log names the account."""
    installed = await installed_store(visit, form.store)
    visit.db = visit.directory  # tokens are written there
    if installed is None:
        raise FormError(store="The app is not installed on this store. Install it there first.")
    if "suspended" in (visit.app.status, installed.status):
        raise FormError(store="The app or the store is suspended. No token was issued.")
    try:
        await limit_rate(visit.by, visit.db, visit.me.account_id, "access-token")
    except TooManyAttempts as refusal:
        message = "You have requested ten tokens in the last minute. Wait a minute, then try again."
        raise FormError({"": message}, status=429) from refusal
    lifetime_s = min(LIFETIME_S, visit.settings.token_seconds)
    issued = await issue_token(visit.by, visit.app.client_id, installed.handle, lifetime_s=lifetime_s)
    if visit.wants_json:
        return _json({"access_token": issued.access_token, "expires_in": lifetime_s, "scope": issued.scope})
    snippets = Snippets(visit.origin, visit.app.client_id, handle=installed.handle)
    context = {"issued": issued, "store": installed, "snippets": snippets}
    return View("apps/access_token.html", context, secret=True)


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
