"""Creates one of each resource that a portal path can name, all owned by one account."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pyotp

from stoa.access.app_keys import add_key
from stoa.access.credentials import keyed_hash
from stoa.access.deploy_tokens import create_deploy_token
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.accounts import teams, two_factor
from stoa.accounts.contract import Team
from stoa.accounts.install_requests import request_install
from stoa.accounts.ownership import give, open_store, owned_app, register_app
from stoa.accounts.queries import ASK_FOR_VERIFICATION, CREATE_ACCOUNT
from stoa.accounts.registration import invite, pending_invitations
from stoa.accounts.sessions import sign_in
from stoa.app import Application
from stoa.db.pool import Database
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import post
from stoa.notifications.contract import News
from stoa.notifications.notify import notify
from stoa.portal.kit.pages import Audience, Form, Page
from stoa.rest.metadata_types import Definition
from stoa.store_data.definitions import define, define_of_app
from stoa.usage.queries import ADD_DAYS, ADD_REQUESTS
from stoa.usage.request_log import NewRequest, first_id
from stoa.usage.rules import COUNTERS
from stoa.webhooks.app_callbacks import set_callbacks
from stoa.webhooks.app_subscriptions import ON_STORE, AppSubscription, declare
from tests.portal.store_data import create_store_data
from tests.portal.webhook_data import create_webhook_data
from tests.support.databases import directory_of
from tests.support.people import PASSWORD, User, as_operator, browser, create_user, new_email, new_peer

VERIFICATION = "verification-of-the-tests"
PUBLIC_KEY = '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}'  # of RFC 8037
REASONS = {
    "products:read": "To list them.",
    "orders:write": "To place them.",
    "webhooks:write": "To subscribe to changes.",
}


async def path_params_for(user: User, db: Database) -> dict[str, Any]:
    """Create one of each resource for a signed-in user; return the path parameters."""
    params = await create_resources(as_operator(db, user.application.settings), db, user.account.id)
    return {**params, "session_id": user.session_id}


async def create_resources(by: Operator, db: Database, account_id: int) -> dict[str, Any]:
    """Create a store with data, an app that it has installed, and another app with a pending install request."""
    db = directory_of(db)
    store = await open_store(by, account_id, f"porch-{account_id}", "Painted porch", "EUR")
    installed = await register_app(by, account_id, "Walker", "https://example.com", REASONS, f"{account_id}:first")
    await install(by, installed.client_id, store.handle)
    await set_callbacks(by, installed.client_id, endpoint_url=None, return_urls=["https://app.example.com/installed"])
    await add_key(by, installed.client_id, PUBLIC_KEY)
    token = await create_deploy_token(by, installed.client_id, "CI", days=90, account_id=account_id)
    declaration = AppSubscription("prices", ["product.updated"], "https://hooks.example.com/prices", changed=["price"])
    declared, _ = await declare(by, installed.client_id, declaration)
    there = await by.at_store(store.handle)
    await there.db.execute("SELECT add_app_subscriptions($1, $2)", store.id, installed.app_id)
    [managed] = await ON_STORE.all(there.db, store.id, installed.app_id)
    requesting = await register_app(by, account_id, "Talker", "", REASONS, f"{account_id}:second")
    requesting_app = await owned_app(db, account_id, requesting.app_id)
    assert requesting_app is not None
    await request_install(by, account_id, requesting_app, store.handle, "May we?")
    for resource in ("product", "customer", "order"):
        await define(by, store.handle, Definition(resource=resource, key="care", type="string"))
    await define_of_app(by, installed.client_id, Definition(resource="product", key="rank", type="integer"))
    logged_id = await add_usage(there, store.id, installed.app_id)
    removed = await register_app(by, account_id, "Leaver", "", REASONS, f"{account_id}:third")
    await install(by, removed.client_id, store.handle)
    await uninstall(by, removed.client_id, store.handle)
    link = await invite(by, new_email())
    invited = next(each for each in await pending_invitations(db) if each.email == link.email)
    await post(db, Content("test", "Hello", "Text", "/portal", "Open"), [Recipient(account_id, new_email())])
    await notify(db, [account_id], News("new_device", "device:1", "New sign-in", "Body", "/portal/account", "Open"))
    [[notification]] = await db.fetch("SELECT max(id) FROM notifications WHERE account_id = $1", account_id)
    [[announcement]] = await db.fetch("SELECT nextval('announcement_ids')")
    [[mail]] = await db.fetch("SELECT max(id) FROM mails WHERE account_id = $1", account_id)
    colleague = new_email()
    member_id = await CREATE_ACCOUNT.one(db, colleague, "Colleague", *("no password", False))
    await give(by, colleague, store=store.handle, app=str(installed.app_id), role="viewer")
    await ASK_FOR_VERIFICATION.run(db, account_id, keyed_hash(by.key, VERIFICATION), 24)
    team = Team("store", store.id, store.name)
    invitation = await teams.invite(by, team, new_email(), "manager", invited_by=account_id)
    return {
        "app_id": installed.app_id,
        "client_id": installed.client_id,
        "handle": store.handle,
        "installed_id": installed.app_id,
        "declared_id": declared.id,
        "token_id": token.id,
        "managed_id": managed.id,
        "requesting_id": requesting.app_id,
        "removed_id": removed.app_id,
        "requested_store": store.handle,
        "verification": VERIFICATION,
        "token": link.address.rpartition("/")[2],
        "logged_id": logged_id,
        "invitation": invitation.address.rpartition("/")[2],
        "invitation_id": (await teams.invitations_to(db, team))[0].id,
        "member_id": member_id,
        **await create_store_data(there, store.handle),
        **await create_webhook_data(there, store.handle, store.id, installed.app_id),
        # Path parameters of operator pages, which are not limited to an owner.
        "store": store.handle,
        "app": installed.app_id,
        "account": account_id,
        "announcement": announcement,
        "invited": invited.reference,
        "mail": mail,
        "notification": notification,
    }


async def add_usage(by: Operator, store_id: int, app_id: int) -> int:
    """Add metrics of two weeks, and one failed request; return its id."""
    keys: dict[str, Any] = {"store_id": store_id, "app_id": app_id}
    today = datetime.now(UTC)
    days = [
        {**keys, **dict.fromkeys(COUNTERS, 0), "day": f"{today - timedelta(days=ago):%Y-%m-%d}"}
        | {"operation": "list_products", "requests": 40 + ago, "ms_10": 38 + ago, "ms_200": 2, "client_errors": ago % 3}
        for ago in range(14)
    ]
    outcome = (422, "validation_failed", '[["/line_items/0/quantity","out_of_range"]]', 900)
    names = ("req_places", "POST", "create_order", "/orders")
    failed = NewRequest(store_id, app_id, first_id(today), today, *names, *outcome)
    await ADD_DAYS.run(by.db, msgspec.json.encode(days).decode())
    await ADD_REQUESTS.run(by.db, msgspec.json.encode([failed]).decode())
    return failed.id


def is_owned(target: Page | Form) -> bool:
    """Whether the path names an app or a store."""
    return "{app_id" in target.path or "{handle" in target.path


async def browser_for(
    audience: Audience, application: Application, db: Database
) -> tuple[httpx.AsyncClient, dict[str, Any]]:
    """Return a browser that is in the audience, and path parameters of one of each resource."""
    owner = await create_user(application, db, operator=True)
    params = {**await path_params_for(owner, db), "token": "no-such-link"}
    if audience in (Audience.SIGNED_IN, Audience.OPERATOR):
        return owner.client, params
    if audience is Audience.TWO_FACTOR_PENDING:
        by = as_operator(db, application.settings)
        secret = two_factor.new_secret()
        await two_factor.turn_on(by, owner.account.id, secret, pyotp.TOTP(secret).now())
        session = await sign_in(by, directory_of(db), owner.email, PASSWORD, peer=new_peer(), agent="")
        owner.client.cookies.set("stoa_session", session.token, domain="testserver.local")
        return owner.client, params
    await owner.client.aclose()
    client = browser(application)
    await client.get("/portal/sign-in")
    return client, params
