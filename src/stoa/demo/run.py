"""`stoa demo`: two stores with sample data, an app installed on both, and example calls."""

import asyncio
import ipaddress
import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import click
import msgspec

from stoa.access.apps import create_app, list_apps, rotate_secret
from stoa.access.contract import SCOPES
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.authentication_queries import CREDENTIALS
from stoa.accounts.ownership import give
from stoa.accounts.passwords import matches
from stoa.accounts.registration import change_password, create_account, list_accounts
from stoa.db import migrate
from stoa.db.pool import Database
from stoa.demo.stock import create_sample_store
from stoa.ids import new_id
from stoa.settings import PREFIX, Settings, WrongSetting, unknown
from stoa.webhooks.app_callbacks import set_callbacks
from stoa.webhooks.app_subscriptions import AppSubscription, declare

APP_NAME = "Demo app"
EMAIL = "demo@example.com"
RETURN_URL = "http://localhost:8787/installed"  # the port of the example receiver in the portal
_SUBSCRIPTION = AppSubscription(
    "Prices and stock",
    ["product.*"],
    changed=["price", "variants.price", "stock.available"],
)
CATALOGS = ("catalog.json", "second.json")


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
    """Allow webhooks to this machine, unless the demo is reachable from elsewhere or the setting is set."""
    if settings.webhook_allow or not ipaddress.ip_address(settings.host).is_loopback:
        return settings
    return msgspec.structs.replace(settings, webhook_allow="localhost,127.0.0.0/8,::1")


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
        for name in CATALOGS:
            await create_sample_store(operator, name)
        client_id, client_secret = await _credentials(operator, settings)
        password = await _account(operator, settings, client_id)
        variables = _variables(settings, client_id, client_secret, password)
        _write(settings.data_dir / "demo.env", variables)
        return variables
    finally:
        await database.close()


async def _credentials(operator: Operator, settings: Settings) -> tuple[str, str]:
    """The app's id and secret: those of the last run, or a new secret if the file is missing."""
    app = next((app for app in await list_apps(operator) if app.name == APP_NAME), None)
    if app is None:
        new = await create_app(operator, APP_NAME, list(SCOPES))
        for handle in ("demo", "atelier"):
            await install(operator, new.client_id, handle)
        await set_callbacks(operator, new.client_id, endpoint_url=None, return_urls=[RETURN_URL])
        await declare(operator, new.client_id, _SUBSCRIPTION)
        return new.client_id, new.client_secret
    saved = _read(settings.data_dir / "demo.env")
    if saved.get("STOA_CLIENT_ID") == app.client_id and "STOA_CLIENT_SECRET" in saved:
        return app.client_id, saved["STOA_CLIENT_SECRET"]
    rotated = await rotate_secret(operator, app.client_id, grace_hours=0, force=True)
    return app.client_id, rotated.client_secret


async def _account(operator: Operator, settings: Settings, client_id: str) -> str:
    """The password of the demo account, which owns both stores and the app; a new one if the file is missing.
    Empty if the password was changed in the portal."""
    saved = _read(settings.data_dir / "demo.env")
    account = next((each for each in await list_accounts(operator) if each.email == EMAIL), None)
    if account is not None and saved:
        proof, known = await CREDENTIALS.one(operator.db, account.id), saved.get("STOA_PORTAL_PASSWORD", "")
        return known if known and await matches(proof.password_hash, known) else ""
    password = secrets.token_urlsafe(15)
    if account is None:
        await create_account(operator, EMAIL, "Demo Person", password, operator=True)
        for handle in ("demo", "atelier"):
            await give(operator, EMAIL, store=handle)
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
