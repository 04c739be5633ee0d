"""How the portal behaves between its pages: the tone of a notice, who keeps a session warm, a crowd at the door, a nudge."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, cast

import pytest

from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_store, register_app
from stoa.app import Application
from stoa.db.pool import Database, connect
from stoa.events.notify import CHANNEL
from tests.portal.hooks import ended, happened, subscribed
from tests.portal.people import Somebody, Visitor, browser

REASONS = {"products:read": "To list them.", "webhooks:write": "To hear of changes."}
CROWD = 60  # more than may wait for their password to be checked


async def test_what_was_done_is_said_in_green(maria: Somebody) -> None:
    await maria.open("/portal/account")
    await maria.send("/portal/account/name", name="Maria")
    assert (maria.notice, maria.tone) == ("Your name is changed.", "good")


async def test_what_was_not_done_is_not_said_in_green(operator: Operator, maria: Somebody) -> None:
    store = await open_store(operator, maria.account.id, f"tone-{maria.account.id}", "Agora", "EUR")
    await maria.open(f"/portal/stores/{store.handle}/products")
    await maria.send(f"/portal/stores/{store.handle}/requests/999999/refuse")
    assert maria.notice
    assert maria.tone == "warn"


async def test_a_session_that_ended_under_a_form_is_not_said_in_green(maria: Somebody) -> None:
    await maria.open("/portal/account")
    token = maria.visitor.token
    await maria.send("/portal/sign-out")
    maria.client.cookies.delete("stoa_notice")
    answer = await maria.client.post(
        "/portal/account/name", data={"_token": token, "name": "Late"}, follow_redirects=True
    )
    maria.visitor.seen = answer
    assert (maria.notice[:22], maria.tone) == ("Your session has ended", "warn")


# --- who keeps a session warm -----------------------------------------------------------------------------------


async def last_seen(db: Database, person: Somebody) -> datetime:
    [[moment]] = await db.fetch("SELECT seen_at FROM account_sessions WHERE id = $1", person.session_id)
    return moment


@pytest.mark.parametrize("headers", [{"x-unattended": "1"}, {"accept": "text/event-stream"}])
async def test_a_page_that_asks_by_itself_keeps_nobody_signed_in(
    db: Database, maria: Somebody, headers: dict[str, str]
) -> None:
    await db.execute(
        "UPDATE account_sessions SET seen_at = now() - interval '50 minutes' WHERE id = $1", maria.session_id
    )
    before = await last_seen(db, maria)
    assert (await maria.client.get("/portal/account", headers=headers)).status_code == 200
    assert await last_seen(db, maria) == before
    await maria.open("/portal/account")
    assert await last_seen(db, maria) > before


# --- a crowd at the door ------------------------------------------------------------------------------------------


async def test_a_crowd_at_the_door_is_told_so_beside_the_form(application: Application) -> None:
    clients = [browser(application) for _ in range(CROWD)]
    visitors = [Visitor(client) for client in clients]
    for visitor in visitors:
        await visitor.open("/portal/sign-in")
    form = {"email": "crowd@example.com", "password": "not the right one"}
    answers = await asyncio.gather(*(visitor.send("/portal/sign-in", form) for visitor in visitors))
    put_off = [visitor for visitor, answer in zip(visitors, answers, strict=True) if answer.status_code == 503]
    assert put_off, "nobody had to wait"
    assert put_off[0].faults[""].startswith("Many people come in at this moment.")
    assert "database" not in put_off[0].text
    assert 'value="crowd@example.com"' in put_off[0].text
    assert put_off[0].seen.headers["retry-after"] == "2"
    for client in clients:
        await client.aclose()


# --- the couriers hear of it at once --------------------------------------------------------------------------------


@pytest.fixture
async def nudges(database_url: str) -> AsyncIterator[asyncio.Queue[str]]:
    """What the couriers of this database are told."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    def hear(_connection: Any, _pid: int, _channel: str, words: str) -> None:
        heard.put_nowait(words)

    connection = cast("Any", await connect(database_url, statement_timeout_ms=0))
    await connection.add_listener(CHANNEL, hear)
    yield heard
    await connection.close()


async def nudged(heard: asyncio.Queue[str], store_id: int) -> None:
    """Wait until the couriers are told of this store."""
    async with asyncio.timeout(30):
        while str(store_id) not in (await heard.get()).split(","):
            pass


async def test_what_is_sent_again_from_a_page_does_not_wait_for_the_next_look(
    operator: Operator, maria: Somebody, nudges: asyncio.Queue[str]
) -> None:
    me = maria.account.id
    store = await open_store(operator, me, f"nudge-{me}", "Agora", "EUR")
    made = await register_app(operator, me, "Walker", "", REASONS, f"nudge{me}")
    await install(operator, made.client_id, store.handle)
    webhook_id = await subscribed(operator, store.id, made.app_id)
    await happened(operator, store.id)
    await ended(operator, store.id, webhook_id, 1, "failed")
    path = f"/portal/apps/{made.app_id}/webhooks/{store.handle}/{webhook_id}/deliveries/1"
    await maria.open(path)
    await maria.send(f"{path}/again")
    assert maria.notice.startswith("It is being sent again")
    await nudged(nudges, store.id)


async def test_an_app_that_is_put_off_a_store_hears_of_it_at_once(
    operator: Operator, maria: Somebody, nudges: asyncio.Queue[str]
) -> None:
    me = maria.account.id
    store = await open_store(operator, me, f"nudged-{me}", "Agora", "EUR")
    made = await register_app(operator, me, "Walker", "", REASONS, f"nudged{me}")
    await install(operator, made.client_id, store.handle)
    path = f"/portal/stores/{store.handle}/apps/{made.app_id}"
    await maria.open(path)
    await maria.send(f"{path}/uninstall")
    await nudged(nudges, store.id)
