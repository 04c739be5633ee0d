"""Sample data of the pictures: people, apps with a month of usage, orders, deliveries, and one of all that a page can show."""

import asyncio
import io
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pyotp

from stoa.access.app_keys import add_key
from stoa.access.apps import suspend_app
from stoa.access.credentials import keyed_hash
from stoa.access.deploy_tokens import create_deploy_token
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator, find_store
from stoa.accounts import announcements, teams, two_factor
from stoa.accounts.contract import OwnedApp
from stoa.accounts.install_requests import request_install
from stoa.accounts.ownership import give, open_development_store, open_store, owned_app, register_app
from stoa.accounts.queries import ADD_LINK
from stoa.accounts.registration import create_account, create_reset_link, find_account, invite
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.pool import Database
from stoa.demo.run import EMAIL
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import post
from stoa.notifications.contract import News
from stoa.notifications.notify import notify
from stoa.rest.metadata_types import Definition
from stoa.settings import load
from stoa.store_data.definitions import define, define_of_app
from stoa.usage.queries import ADD_DAYS
from stoa.usage.rules import COUNTERS
from stoa.webhooks.app_callbacks import set_callbacks
from stoa.webhooks.app_subscriptions import AppSubscription, declare
from stoa_client import Client
from stoa_client.errors import StoaError
from tools.pictures.demo import LOOPBACK, SHOWN, UNDELIVERABLE, Demo, wait_until

PASSWORD = "a walk in the painted porch"  # noqa: S105 - of the people of a demo that is deleted afterwards
DEVELOPER, MERCHANT, OPERATOR = "dana@sync.example.com", "mira@example.com", EMAIL
COLLEAGUE, NEWCOMER, CAREFUL = "theo@example.com", "noor@example.com", "tova@example.com"
_PEOPLE = {
    DEVELOPER: "Dana Reyes",
    MERCHANT: "Mira Hall",
    COLLEAGUE: "Theo Park",
    NEWCOMER: "Noor Aziz",
    CAREFUL: "Tova Lind",
}

_APP, _ASKING, _LEFT, _SUSPENDED = "Stock sync", "Parcel post", "Mailer", "Price watch"
_REASONS = {
    "products:write": "To show your goods in the warehouse.",
    "orders:write": "To pick, pack and ship what was ordered.",
    "webhooks:write": "To receive each order as it comes.",
}
_PARCELS = {
    "orders:write": "To mark what has left the house as shipped.",
    "customers:read": "To print the address on the parcel.",
}
_WORDS = "We bring your parcels within two days. Your neighbours at Atelier use us, too."
_RANK = Definition(
    resource="product", key="rank", type="integer", min=1, description="The place in the warehouse list."
)
_WARRANTY = Definition(resource="product", key="warranty_months", type="integer", min=0, max=120)
_PUBLIC_KEY = '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}'  # of RFC 8037
_RETURN_URL = "https://sync.example.com/installed"
_SKUS = ("TS-LIN-S-NAT", "MG-CAF-MOS", "BD-OLV-45", "KN-MER-M-OAT", "KT-ENM-CRM", "MG-CAF-INK")
_IMPORT = """sku,name,price,status
MG-CAF-MOS,Café Mug,14.00,active
PL-STN-RND,Stone plate,twenty,active
BW-OAK-LRG,Oak bowl,48.00,sold
,Linen runner,32.00,draft
"""
# Sample usage by endpoint: requests on a working day, and the milliseconds that most of them take.
_USAGE = {"list_products": (640, 10), "get_order": (310, 5), "create_order": (90, 20), "update_order_status": (75, 20)}
# A day and a month of samples, with quiet nights.
_LOAD = """INSERT INTO service_samples (minutes, at, requests, client_errors, server_errors, rate_limited, ms_5, ms_20, ms_100,
                                        pending, imports_waiting, late_seconds, connections, max_connections, database_ms, bytes)
    SELECT m, at, n, n / 90, CASE WHEN k % 41 = 7 THEN 3 ELSE 0 END, CASE WHEN k % 29 = 5 THEN n / 40 ELSE 0 END,
           n * 6 / 10, n * 3 / 10, n / 10, n / 30, k % 37 / 34, (k % 13) / 20.0, 14 + n * 9 / (m * 120), 100,
           0.3 + (k % 17) / 40.0, 90000000 - k * m * 900
      FROM (SELECT m, k, date_bin(make_interval(mins => m), now(), '2000-01-01') - make_interval(mins => m * k) AS at,
                   (m * (60 + 45 * sin((k * m + 300) / 1440.0 * 2 * pi()) + k * 7 % 11))::bigint AS n
              FROM (VALUES (5, 290), (60, 720)) AS s (m, most), generate_series(0, most) AS k) moments
    ON CONFLICT DO NOTHING"""
_FAILED_REQUEST = "SELECT max(id) FROM request_log WHERE app_id = $1 AND status = 422"


def create_samples(demo: Demo) -> dict[str, Any]:
    """Fill the demo; return one path parameter of each name that the pages of the portal have."""
    client_id, client_secret, params = asyncio.run(_add_people(demo))
    params |= _call_api(demo, client_id, client_secret)
    wait_until(lambda: asyncio.run(_failed_request(demo, params)) is not None, "the request log is not written")
    return params | asyncio.run(_find_parameters(demo, params))


def _operator(demo: Demo) -> Operator:
    url = EmbeddedPostgres(demo.folder / "postgres").dsn
    settings = load({}, database_url=url, data_dir=demo.folder, public_url=SHOWN, webhook_allow=LOOPBACK)
    return Operator(Database(url, size=2), settings, actor="operator:demo", request_id="req_pictures")


async def _add_people(demo: Demo) -> tuple[str, str, dict[str, Any]]:
    """Add accounts, apps with usage, teams, links, news and mail."""
    by = _operator(demo)
    db = by.db
    assert isinstance(db, Database)  # noqa: S101 - it was opened a few lines above
    people = {email: (await create_account(by, email, name, PASSWORD)).id for email, name in _PEOPLE.items()}
    people[OPERATOR] = (await find_account(db, OPERATOR)).id
    for handle in ("demo", "atelier"):
        await give(by, MERCHANT, store=handle)
    store, me = await find_store(db, "demo"), people[DEVELOPER]
    made = await register_app(by, me, _APP, "https://sync.example.com", _REASONS, f"{me}:first")
    await install(by, made.client_id, "demo")
    await set_callbacks(by, made.client_id, endpoint_url=f"{demo.hook}/app", return_urls=[_RETURN_URL])
    declared, _ = await declare(
        by, made.client_id, AppSubscription("Prices", ["product.updated"], f"{demo.hook}/prices")
    )
    await create_deploy_token(by, made.client_id, "CI", days=90, account_id=me)
    await define_of_app(by, made.client_id, _RANK)
    await define(by, "demo", _WARRANTY)
    await add_key(by, made.client_id, _PUBLIC_KEY)
    asking = await register_app(by, me, _ASKING, "https://parcels.example.com", _PARCELS, f"{me}:second")
    listed = await owned_app(db, me, asking.app_id)
    assert isinstance(listed, OwnedApp)  # noqa: S101 - it was registered a line above
    await request_install(by, me, listed, "demo", _WORDS)
    left = await register_app(by, me, _LEFT, "", _REASONS, f"{me}:third")
    await install(by, left.client_id, "demo")
    await uninstall(by, left.client_id, "demo")
    suspended = await register_app(by, me, _SUSPENDED, "https://prices.example.com", _PARCELS, f"{me}:fourth")
    await install(by, suspended.client_id, "atelier")
    await suspend_app(by, suspended.client_id, "It reads all customers every minute.")
    test_store = await open_development_store(by, me, "Stock sync test", "EUR")
    await install(by, made.client_id, test_store.handle)
    await open_store(by, people[MERCHANT], "corner", "Corner shop", "EUR")
    await ADD_DAYS.run(db, msgspec.json.encode(_month(store.id, made.app_id)).decode())
    await db.execute("DELETE FROM service_samples")  # the quieter past of the demo
    await db.execute(_LOAD)
    await give(by, COLLEAGUE, store="demo", role="viewer")
    await give(by, COLLEAGUE, app=str(made.app_id), role="developer")
    secret = two_factor.new_secret()
    await two_factor.turn_on(by, people[CAREFUL], secret, pyotp.TOTP(secret).now())
    invitation = await teams.invite(by, await teams.find_team(db, store="demo"), "ana@example.com", "manager")
    await teams.invite(by, await teams.find_team(db, app=str(made.app_id)), "ana@example.com", "viewer")
    await _announce(by, people)
    await _write(db, people, made.app_id)
    params: dict[str, Any] = {
        "app_id": made.app_id,
        "app": made.app_id,
        "installed_id": made.app_id,
        "asking_id": asking.app_id,
        "suspended_id": suspended.app_id,
        "client_id": made.client_id,
        "declared_id": declared.id,
        "collection": "front-page",
        "handle": "demo",
        "store": "demo",
        "at": "demo",
        "account": me,
        "invitation": _token(invitation.address),
        "set_up": await _set_up_token(by),
        "invited": _token((await invite(by, "lena@example.com")).address),
        "reset": _token((await create_reset_link(by, COLLEAGUE)).address),
    }
    await db.close()
    return made.client_id, made.client_secret, params


def _token(address: str) -> str:
    return address.rpartition("/")[2]


async def _set_up_token(by: Operator) -> str:
    """The token of a link for the first account, which a service offers only while it has none."""
    token = secrets.token_urlsafe(32)
    await ADD_LINK.one(by.db, keyed_hash(by.key, token), "set-up", "", *(True, None, 1, None, False))
    return token


async def _announce(by: Operator, people: dict[str, int]) -> None:
    """Announcements of now and of next week; only newcomers have not dismissed the first."""
    now = datetime.now(UTC)
    text = "On Sunday from 06:00 to 06:20 UTC we move to a faster database. Requests wait for some seconds; none fails."
    shown = await announcements.announce(by, text, now, now + timedelta(days=6), now)
    await announcements.announce(
        by, "The portal has a new page: Load.", now + timedelta(days=7), now + timedelta(days=9), now
    )
    for email, account_id in people.items():
        if email != NEWCOMER:
            await announcements.dismiss(by, account_id, shown)


async def _write(db: Database, people: dict[str, int], app_id: int) -> None:
    """A notification with its mail for some people, and a mail that cannot be delivered."""
    body = (
        "The old client secret of Stock sync stops working tomorrow at 09:00 UTC. Replace it in your app before then."
    )
    news = News(
        "secret_expires", f"app:{app_id}", "A secret of Stock sync is about to expire", body,
        f"/portal/apps/{app_id}/credentials", "See the secrets",
    )  # fmt: skip
    await notify(db, [people[DEVELOPER], people[COLLEAGUE]], news)
    await post(db, Content("test", "Test mail", "This service can send email."), [Recipient(None, UNDELIVERABLE)])


def _month(store_id: int, app_id: int) -> list[dict[str, Any]]:
    """Usage of thirty days with quiet weekends, slow growth and one bad day."""
    today, rows = datetime.now(UTC), list[dict[str, Any]]()
    for ago in range(1, 31):
        day = today - timedelta(days=ago)
        factor = (0.45 if day.weekday() >= 5 else 1) * (1.25 - ago / 60) * (0.9 + (ago * 7 % 5) / 20)
        bad = ago == 9
        for operation, (usual, fast) in _USAGE.items():
            number = int(usual * factor)
            slow = number // (6 if bad else 40)
            figures = {**dict.fromkeys(COUNTERS, 0), "requests": number, f"ms_{fast}": number - slow, "ms_100": slow}
            figures |= {
                "client_errors": number // 90,
                "server_errors": 9 if bad else 0,
                "rate_limited": 14 if bad else 0,
                "total_us": ((number - slow) * int(fast) + slow * 70) * 1000,
            }
            rows.append({"store_id": store_id, "app_id": app_id, "day": f"{day:%Y-%m-%d}", "operation": operation, **figures})  # fmt: skip
    return rows


def _call_api(demo: Demo, client_id: str, client_secret: str) -> dict[str, Any]:
    """Place some orders and wait for their deliveries, import a file with faults, and make mistakes for the request log."""
    with Client(f"{demo.url}/stores/demo", client_id=client_id, client_secret=client_secret) as stoa:
        webhook = stoa.webhooks.create(name="Orders to the warehouse", url=demo.hook, events=["order.*"])
        for number, sku in enumerate(_SKUS):
            line: Any = {"sku": sku, "quantity": 1 + number % 2}
            order = stoa.orders.create(line_items=[line], customer={"email": f"guest-{number}@example.com"})
            if number % 2 == 0:
                stoa.orders.update_status(order.id, status="processing")
            if number == 3:
                stoa.orders.comments.create(order.id, body="Leave it with the neighbours.")
        for mistake in (
            lambda: stoa.orders.create(line_items=[{"sku": _SKUS[0], "quantity": 0}]),
            lambda: stoa.products.get(1),
            lambda: stoa.customers.list().page(),
        ):
            try:
                mistake()
            except StoaError:
                continue
        job = stoa.products.imports.create(io.BytesIO(_IMPORT.encode()), media_type="text/csv")
        stoa.products.imports.wait(job)

        def failed() -> list[int]:
            """The failed deliveries, as soon as there is one and all were attempted."""
            found = list(stoa.webhooks.deliveries.list(webhook.id))
            attempted = all(each.attempt_count > 0 for each in found)
            return [each.sequence for each in found if each.status != "succeeded"] if attempted else []

        wait_until(failed, "the deliveries do not arrive")
        [sequence] = failed()[:1]
    httpx.get(f"{demo.url}/stores/demo/api/v3/app/unknown")
    return {"webhook_id": webhook.id, "import_id": job.id, "sequence": sequence}


async def _failed_request(demo: Demo, params: dict[str, Any]) -> int | None:
    """The id of a failed request, which a worker writes to the log after some seconds."""
    by = _operator(demo)
    assert isinstance(by.db, Database)  # noqa: S101 - it was opened a line above
    [[found]] = await by.db.fetch(_FAILED_REQUEST, params["app_id"])
    await by.db.close()
    return found


async def _find_parameters(demo: Demo, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the service has chosen."""
    by = _operator(demo)
    assert isinstance(by.db, Database)  # noqa: S101 - it was opened a line above
    db, store = by.db, await find_store(by.db, "demo")

    async def one(statement: str, *args: object) -> Any:
        [[found]] = await db.fetch(statement, *args)
        return found

    async def order(condition: str) -> int:
        """The newest order of which this is true."""
        return await one(f"SELECT max(id) FROM orders WHERE store_id = $1 AND {condition}", store.id)

    returned = await order("status = 'shipped' AND payment_status = 'partially_refunded'")
    found = {
        "logged_id": await one(_FAILED_REQUEST, params["app_id"]),
        "product_id": await one("SELECT product_id FROM variants WHERE store_id = $1 AND sku = $2", store.id, _SKUS[0]),
        "order_id": returned,  # shipped, with a part refunded
        "pending_order_id": await order("status = 'pending' AND payment_status = 'unpaid'"),
        "processing_order_id": await order("status = 'processing'"),
        "duplicate_order_id": await order("suspected_duplicates > 0"),
        "customer_id": await one("SELECT customer_id FROM orders WHERE store_id = $1 AND id = $2", store.id, returned),
        "location_code": await one("SELECT min(code) FROM locations WHERE store_id = $1", store.id),
        "action": "refund",
        "mail": await one("SELECT max(id) FROM mails WHERE kind = 'test'"),
    }
    await db.close()
    return found
