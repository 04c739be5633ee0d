"""`stoa demo`: two stores with believable goods, an app installed on both, and the lines with which to call them."""

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
from stoa.accounts.ownership import give
from stoa.accounts.passwords import matches
from stoa.accounts.queries import CREDENTIALS
from stoa.accounts.registration import change_password, create_account, list_accounts
from stoa.db import migrate
from stoa.db.pool import Database
from stoa.demo.stock import stock_up
from stoa.ids import new_id
from stoa.settings import PREFIX, Settings, WrongSetting, unknown

APP_NAME = "Demo app"
EMAIL = "demo@example.com"
CATALOGUES = ("catalogue.json", "second.json")


class Serving(Protocol):
    """What runs a service: the module `stoa.serving`, which stands above this one."""

    def check_port(self, settings: Settings) -> None: ...
    def check_metrics(self, settings: Settings) -> None: ...
    def database(self, settings: Settings) -> AbstractContextManager[Settings]: ...
    def serve(self, settings: Settings, *, on_ready: Callable[[], None]) -> None: ...


def run_demo(settings: Settings, serving: Serving) -> None:
    """Start everything, fill it once, serve, and say how to call it when the first answer comes."""
    for line in unknown():
        click.echo(f"warning: {line}", err=True)
    settings = _with_loopback(settings)
    serving.check_port(settings)
    settings = _with_metrics(settings, serving)
    click.echo("Starting PostgreSQL ..." if not settings.database_url else "Connecting to PostgreSQL ...", err=True)
    with serving.database(settings) as ready:
        lines = asyncio.run(prepare(ready))
        serving.serve(ready, on_ready=lambda: click.echo(_welcome(settings, lines)))
    click.echo("Stopped. The data is kept; `make demo` goes on with it.", err=True)


def _with_loopback(settings: Settings) -> Settings:
    """Let webhooks go to a receiver on this machine, unless others reach the demo or the setting says otherwise."""
    if settings.webhook_allow or not ipaddress.ip_address(settings.host).is_loopback:
        return settings
    return msgspec.structs.replace(settings, webhook_allow="localhost,127.0.0.0/8,::1")


def _with_metrics(settings: Settings, serving: Serving) -> Settings:
    """Leave the metrics out where another service has their usual address; one that was chosen must be had."""
    try:
        serving.check_metrics(settings)
    except WrongSetting:
        if os.environ.get(f"{PREFIX}METRICS"):
            raise
        click.echo(f"Metrics are off: {settings.metrics} is taken. STOA_METRICS chooses another address.", err=True)
        return msgspec.structs.replace(settings, metrics="off")
    return settings


async def prepare(settings: Settings) -> dict[str, str]:
    """Migrate and fill what is missing; answers what newcomers need to know, which is also kept in a file."""
    await migrate.migrate(settings.database_url)
    database = Database(settings.database_url, size=2, statement_timeout_ms=30_000)
    operator = Operator(database, settings, actor="operator:demo", request_id=new_id("req"))
    try:
        for name in CATALOGUES:
            await stock_up(operator, name)
        client_id, client_secret = await _credentials(operator, settings)
        lines = _lines(settings, client_id, client_secret, await _account(operator, settings, client_id))
        _keep(settings.data_dir / "demo.env", lines)
        return lines
    finally:
        await database.close()


async def _credentials(operator: Operator, settings: Settings) -> tuple[str, str]:
    """The app's id and secret: those of the last run, or new ones where that file is gone."""
    app = next((app for app in await list_apps(operator) if app.name == APP_NAME), None)
    if app is None:
        new = await create_app(operator, APP_NAME, list(SCOPES))
        for handle in ("demo", "atelier"):
            await install(operator, new.client_id, handle)
        return new.client_id, new.client_secret
    kept = _kept(settings.data_dir / "demo.env")
    if kept.get("STOA_CLIENT_ID") == app.client_id and "STOA_CLIENT_SECRET" in kept:
        return app.client_id, kept["STOA_CLIENT_SECRET"]
    renewed = await rotate_secret(operator, app.client_id, grace_hours=0, force=True)
    return app.client_id, renewed.client_secret


async def _account(operator: Operator, settings: Settings, client_id: str) -> str:
    """The password of the demo's own account, which owns both stores and the app; made anew where the file is gone.
    Nothing where its owner has chosen another: that one is not ours to know."""
    kept = _kept(settings.data_dir / "demo.env")
    account = next((each for each in await list_accounts(operator) if each.email == EMAIL), None)
    if account is not None and kept:
        proof, known = await CREDENTIALS.one(operator.db, account.id), kept.get("STOA_PORTAL_PASSWORD", "")
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


def _lines(settings: Settings, client_id: str, client_secret: str, password: str) -> dict[str, str]:
    service = settings.public_url or f"http://localhost:{settings.port}"
    lines = {
        "STOA_BASE_URL": f"{service}/stores/demo",
        "STOA_AUTH_URL": f"{service}/oauth/token",
        "STOA_CLIENT_ID": client_id,
        "STOA_CLIENT_SECRET": client_secret,
        "STOA_PORTAL_URL": f"{service}/portal",
        "STOA_PORTAL_EMAIL": EMAIL,
        "STOA_PORTAL_PASSWORD": password,
    }
    return {name: value for name, value in lines.items() if value}


def _keep(file: Path, lines: dict[str, str]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.writelines(f"{name}={value}\n" for name, value in lines.items())
    new.replace(file)


def _kept(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    pairs = (line.removeprefix("export ").partition("=") for line in file.read_text().splitlines())
    return {name: value for name, _, value in pairs}


def _welcome(settings: Settings, lines: dict[str, str]) -> str:
    file = settings.data_dir / "demo.env"
    password = lines.get("STOA_PORTAL_PASSWORD", "the password that you chose")
    variables = "\n".join(f"{name}={value}" for name, value in lines.items())
    return f"""
# Stoa is ready. Two stores are open: demo, a town shop in USD, and atelier, a Tokyo workshop in JPY.
# These lines also stand in {file}: source it in another terminal, then paste the three below.

{variables}

# 1. Exchange the credentials for a token that lives one hour
TOKEN=$(curl -s -u "$STOA_CLIENT_ID:$STOA_CLIENT_SECRET" -d grant_type=client_credentials "$STOA_AUTH_URL" | sed -E 's/.*"access_token": ?"([^"]+)".*/\\1/')
# 2. List the products of the demo store
curl -s -H "Authorization: Bearer $TOKEN" -H "Accept: application/json" "$STOA_BASE_URL/api/v3/app/products?limit=2"
# 3. Find the linen that is in stock, cheapest first
curl -s -H "Authorization: Bearer $TOKEN" "$STOA_BASE_URL/api/v3/app/products?q=linen&in_stock=true&sort=price&fields=id,name,price"

# Portal:    {lines["STOA_PORTAL_URL"]}    sign in as {EMAIL} with {password}
# Reference: {lines["STOA_PORTAL_URL"].removesuffix("portal")}docs    Stop with Ctrl-C.
"""
