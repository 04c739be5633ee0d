"""`stoa demo`: two stores with sample data, an app installed on both, and example calls."""

import asyncio
import ipaddress
import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import click
import msgspec

from stoa.access.apps import create_app, list_apps, rotate_secret
from stoa.access.contract import SCOPES, App
from stoa.access.grants import install
from stoa.access.operator import Operator, find_app
from stoa.accounts.authentication_queries import CREDENTIALS
from stoa.accounts.ownership import give
from stoa.accounts.passwords import matches
from stoa.accounts.registration import change_password, create_account, find_account, list_accounts
from stoa.db import migrate
from stoa.db.pool import Database
from stoa.demo.backdating import FOUND_STORE, NOTIFY_EARLIER, found_earlier, route
from stoa.demo.deliveries import deliver
from stoa.demo.past import Past, PastOperator
from stoa.demo.receiver import receiver_url
from stoa.demo.sales import Cast
from stoa.demo.stock import define_samples, fill, open_sample_store
from stoa.demo.story import OPENED
from stoa.demo.traffic import add_traffic
from stoa.demo.uploads import import_files
from stoa.ids import new_id
from stoa.notifications.news import webhook_failing
from stoa.notifications.notify import notify
from stoa.notifications.queries import Named
from stoa.rest.call import Caller, NamedPerson
from stoa.settings import PREFIX, Settings, WrongSetting, unknown
from stoa.webhooks.app_callbacks import set_callbacks
from stoa.webhooks.app_subscriptions import AppSubscription, declare, unreachable_host

APP_NAME = "Demo app"
EMAIL = "demo@example.com"
RETURN_URL = "http://localhost:8787/installed"  # the port of the example receiver in the portal
FAILING = "Warehouse"
_PRICES = AppSubscription("Prices and stock", ["product.*"], changed=["price", "variants.price", "stock.available"])
_WAREHOUSE = AppSubscription(
    FAILING, ["order.status_changed"], url="http://localhost:8788/warehouse"
)  # nothing listens there
_ORDERS = AppSubscription("Orders", ["order.*"])
CATALOGS = (("catalog.json", 24), ("second.json", 6))  # with the requests of the app in a busy hour


class Serving(Protocol):
    """The interface of the module `stoa.processes.serving`, which this layer must not import."""

    def check_port(self, settings: Settings) -> None: ...
    def check_metrics(self, settings: Settings) -> None: ...
    def database(self, settings: Settings) -> AbstractContextManager[Settings]: ...
    def check_start(self, settings: Settings) -> tuple[Settings, list[str]]: ...
    def serve(self, settings: Settings, *, on_ready: Callable[[], None]) -> None: ...


def run_demo(settings: Settings, serving: Serving) -> None:
    """Start the database, fill it on the first run, serve, and print example calls once the service is ready."""
    for line in unknown():
        click.echo(f"warning: {line}", err=True)
    settings = _with_loopback(settings)
    serving.check_port(settings)
    settings = _with_metrics(settings, serving)
    click.echo("Starting PostgreSQL ..." if not settings.database_url else "Connecting to PostgreSQL ...", err=True)
    with serving.database(settings) as ready:
        variables = asyncio.run(prepare(ready))
        checked, _ = serving.check_start(ready)
        serving.serve(checked, on_ready=lambda: click.echo(_welcome(settings, variables)))
    click.echo("Stopped. The data is kept for the next `stoa demo`.", err=True)


def _with_loopback(settings: Settings) -> Settings:
    """Be a demo with a receiver, and allow webhooks to this machine, unless the demo is reachable from elsewhere."""
    if not ipaddress.ip_address(settings.host).is_loopback:
        return settings
    allowed = settings.webhook_allow or "localhost,127.0.0.0/8,::1"
    return msgspec.structs.replace(settings, webhook_allow=allowed, demo=True)


def _with_metrics(settings: Settings, serving: Serving) -> Settings:
    """Turn metrics off if another service uses their default address; an explicitly chosen address must be free."""
    try:
        serving.check_metrics(settings)
    except WrongSetting:
        if os.environ.get(f"{PREFIX}METRICS"):
            raise
        click.echo(f"Metrics are off: {settings.metrics} is in use. Set STOA_METRICS to use another address.", err=True)
        return msgspec.structs.replace(settings, metrics="off")
    return settings


async def prepare(settings: Settings) -> dict[str, str]:
    """Migrate, add missing sample data, and return the variables for callers, which are also written to a file."""
    await migrate.migrate(settings.direct_url)
    database = Database(settings.database_url, size=2, statement_timeout_ms=30_000)
    operator = Operator(database, settings, actor="operator:demo", request_id=new_id("req"))
    try:
        app = next((app for app in await list_apps(operator) if app.name == APP_NAME), None)
        founder = operator if app is not None else await _founder(operator)
        client_id, client_secret = await _credentials(founder, app)
        password = await _account(founder, client_id)
        await _declare(founder, client_id)
        if isinstance(founder, PastOperator):
            app_id, account_id = (await find_app(database, client_id)).id, (await find_account(database, EMAIL)).id
            await found_earlier(database, app_id, account_id, founder.past.now)
        for catalog, per_hour in CATALOGS:
            await _open_store(operator, client_id, catalog, per_hour)
        await import_files(database, "demo", (await find_account(database, EMAIL)).id, datetime.now(UTC))
        variables = _variables(settings, client_id, client_secret, password)
        _write(settings.data_dir / "demo.env", variables)
        return variables
    finally:
        await database.close()


async def _founder(operator: Operator) -> PastOperator:
    """Creates the app and the account of a first run, before the first store opened."""
    past = Past()
    await past.travel(operator.db, datetime.now(UTC) - OPENED - timedelta(days=1))
    return _in_the_past(operator, past)


def _in_the_past(operator: Operator, past: Past) -> PastOperator:
    return PastOperator(operator.db, operator.settings, actor=operator.actor, request_id=operator.request_id, past=past)


async def _credentials(operator: Operator, app: App | None) -> tuple[str, str]:
    """The app's id and secret: those of the last run, or a new secret if the file is missing."""
    if app is None:
        new = await create_app(operator, APP_NAME, list(SCOPES))
        return new.client_id, new.client_secret
    saved = _read(operator.settings.data_dir / "demo.env")
    if saved.get("STOA_CLIENT_ID") == app.client_id and "STOA_CLIENT_SECRET" in saved:
        return app.client_id, saved["STOA_CLIENT_SECRET"]
    rotated = await rotate_secret(operator, app.client_id, grace_hours=0, force=True)
    return app.client_id, rotated.client_secret


async def _declare(operator: Operator, client_id: str) -> None:
    """Declare what the app receives on all stores; the address of the receiver follows the port of this run."""
    url = receiver_url(operator.settings, client_id)
    reachable = operator.settings.demo and await unreachable_host(operator, url) is None
    await set_callbacks(operator, client_id, endpoint_url=None, return_urls=[RETURN_URL])
    await declare(operator, client_id, msgspec.structs.replace(_ORDERS, url=url if reachable else None))
    if reachable and await unreachable_host(operator, _WAREHOUSE.url) is None:
        await declare(operator, client_id, _WAREHOUSE)
    await declare(operator, client_id, _PRICES)


async def _open_store(operator: Operator, client_id: str, catalog: str, per_hour: int) -> None:
    """Create a store with its past in one transaction, so that an interrupted start leaves no half of it."""
    now, past = datetime.now(UTC), Past()
    async with _in_the_past(operator, past).transaction() as joined:
        await past.travel(joined.db, now - OPENED - timedelta(hours=3))
        store = await open_sample_store(joined, catalog)
        if store is None:
            return
        app, account = await find_app(joined.db, client_id), await find_account(joined.db, EMAIL)
        await give(joined, EMAIL, store=store.handle)
        await install(joined, client_id, store.handle)
        cast = Cast(Caller(app.id, app.name, frozenset(SCOPES), 0, 0), NamedPerson(account.id, account.name))
        await past.travel(joined.db, now - OPENED)
        await FOUND_STORE.run(joined.db, store.id, now - OPENED - timedelta(hours=3))
        await define_samples(joined, store.handle, catalog)
        await fill(joined, store.handle, catalog, past, cast)
        await route(joined.db, store.id, now)
        for webhook_id, since in (await deliver(joined.db, store.id, FAILING, now)).items():
            news = webhook_failing(app.id, webhook_id, Named(store.handle, store.name, app.name))
            await notify(joined.db, [account.id], news)
            await NOTIFY_EARLIER.run(joined.db, account.id, news.subject, since)
        await add_traffic(joined.db, store.id, app.id, now, per_hour)


async def _account(operator: Operator, client_id: str) -> str:
    """The password of the demo account, which owns both stores and the app; a new one if the file is missing.
    Empty if the password was changed in the portal."""
    saved = _read(operator.settings.data_dir / "demo.env")
    account = next((each for each in await list_accounts(operator) if each.email == EMAIL), None)
    if account is not None and saved:
        proof, known = await CREDENTIALS.one(operator.db, account.id), saved.get("STOA_PORTAL_PASSWORD", "")
        return known if known and await matches(proof.password_hash, known) else ""
    password = secrets.token_urlsafe(15)
    if account is None:
        await create_account(operator, EMAIL, "Demo Person", password, operator=True)
        await give(operator, EMAIL, app=client_id)
    else:
        await change_password(operator, account, password)
    return password


def _variables(settings: Settings, client_id: str, client_secret: str, password: str) -> dict[str, str]:
    service = settings.public_url or f"http://localhost:{settings.port}"
    variables = {
        "STOA_BASE_URL": f"{service}/stores/demo",
        "STOA_AUTH_URL": f"{service}/oauth/token",
        "STOA_CLIENT_ID": client_id,
        "STOA_CLIENT_SECRET": client_secret,
        "STOA_PORTAL_URL": f"{service}/portal",
        "STOA_PORTAL_EMAIL": EMAIL,
        "STOA_PORTAL_PASSWORD": password,
    }
    return {name: value for name, value in variables.items() if value}


def _write(file: Path, variables: dict[str, str]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.writelines(f"{name}={value}\n" for name, value in variables.items())
    new.replace(file)


def _read(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    pairs = (line.removeprefix("export ").partition("=") for line in file.read_text().splitlines())
    return {name: value for name, _, value in pairs}


def _welcome(settings: Settings, variables: dict[str, str]) -> str:
    file = settings.data_dir / "demo.env"
    password = variables.get("STOA_PORTAL_PASSWORD", "the password that you chose")
    assignments = "\n".join(f"{name}={value}" for name, value in variables.items())
    return f"""
# Stoa is ready. It has two stores: demo, a town shop in USD, and atelier, a Tokyo workshop in JPY.
# These variables are also in {file}: source it in another terminal, then paste the three commands below.

{assignments}

# 1. Exchange the credentials for an access token, valid for one hour
TOKEN=$(curl -s -u "$STOA_CLIENT_ID:$STOA_CLIENT_SECRET" -d grant_type=client_credentials "$STOA_AUTH_URL" | sed -E 's/.*"access_token": ?"([^"]+)".*/\\1/')
# 2. List the products of the demo store
curl -s -H "Authorization: Bearer $TOKEN" -H "Accept: application/json" "$STOA_BASE_URL/api/v3/app/products?limit=2"
# 3. Search for linen in stock, cheapest first
curl -s -H "Authorization: Bearer $TOKEN" "$STOA_BASE_URL/api/v3/app/products?q=linen&in_stock=true&sort=price&fields=id,name,price"

# Portal:    {variables["STOA_PORTAL_URL"]}    sign in as {EMAIL} with {password}
# Reference: {variables["STOA_PORTAL_URL"].removesuffix("portal")}docs    Press Ctrl-C to stop.
"""
