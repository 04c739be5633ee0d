"""Those who run the service find every store, app and account, stop and start them, and see how the service is."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta

import pytest

from stoa.access import audit
from stoa.app import Application
from stoa.db import migrate
from stoa.db.pool import Database
from stoa.portal.health import Seen, concerns
from stoa.portal.queries import AppliedMigration, Days, ImportsNow, Overdue, Server
from stoa.webhooks.delivery.queries import Backlog
from tests.portal.people import Somebody, signed_in, somebody
from tests.support.shops import Shop

HERE = "/portal/operators"


@pytest.fixture
async def operator(application: Application, db: Database) -> AsyncIterator[Somebody]:
    """Somebody who runs the service."""
    person = await somebody(application, db, operator=True, name="Olive Run")
    yield person
    await person.client.aclose()


async def said(db: Database, chain: int) -> audit.Entry:
    return (await audit.newest(db, chain, 1))[0]


# --- finding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["stores", "apps", "accounts"])
async def test_what_is_searched_for_is_found(shop: Shop, operator: Somebody, zeno: Somebody, place: str) -> None:
    wanted = {"stores": shop.store.handle, "apps": shop.client_id, "accounts": zeno.email}[place]
    await operator.open(f"{HERE}/{place}?q={wanted.upper()}")
    assert operator.text.count("<tr><td>") == 1
    assert wanted in operator.text
    await operator.open(f"{HERE}/{place}?q=no-such-{wanted}")
    assert "Nothing matches" in operator.text


@pytest.mark.parametrize("place", ["stores", "apps", "accounts"])
async def test_a_long_list_goes_on(application: Application, db: Database, operator: Somebody, place: str) -> None:
    statement = {
        "stores": "INSERT INTO stores (handle, name, currency) SELECT $1 || n, 'Many', 'EUR' FROM generate_series(1, 30) n",
        "apps": "INSERT INTO apps (client_id, name, scopes) SELECT $1 || n, 'Many', '{}' FROM generate_series(1, 30) n",
        "accounts": "INSERT INTO accounts (email, name, password_hash) SELECT $1 || n, 'Many', '' FROM generate_series(1, 30) n",
    }[place]
    word = f"many{operator.account.id}-"
    await db.execute(statement, word)
    await operator.open(f"{HERE}/{place}?q={word}")
    assert operator.text.count("<tr><td>") == 25
    older = operator.text.partition(f'href="?q={word}&status=&before=')[2].partition('"')[0]
    await operator.open(f"{HERE}/{place}?q={word}&before={older}")
    assert operator.text.count("<tr><td>") == 5


@pytest.mark.parametrize("place", ["stores", "apps", "accounts"])
@pytest.mark.parametrize("query", ["q=%00", "q=%25", "status=x", "before=x", f"before={'9' * 40}", "q=" + "é" * 600])
async def test_a_hostile_search_is_a_page_all_the_same(operator: Somebody, place: str, query: str) -> None:
    await operator.open(f"{HERE}/{place}?{query}")
    assert operator.seen.status_code == 200


@pytest.mark.parametrize(
    "path", ["stores/no-such-store", "stores/%00", "stores/UPPER", "apps/999999999", f"accounts/{2**62}"]
)
async def test_what_never_was_is_not_found(operator: Somebody, path: str) -> None:
    await operator.open(f"{HERE}/{path}")
    assert operator.seen.status_code == 404


# --- stopping and starting -----------------------------------------------------------------------------------


async def test_a_store_is_suspended_and_resumed(shop: Shop, operator: Somebody, db: Database) -> None:
    page = f"{HERE}/stores/{shop.store.handle}"
    await operator.open(page)
    await operator.send(f"{page}/suspend")
    assert operator.path == page
    assert "is suspended" in operator.notice
    entry = await said(db, shop.store_id)
    assert (entry.action, entry.actor) == ("store.suspended", f"account:{operator.account.id}")
    assert entry.request_id.startswith("req_")
    await operator.open(f"{HERE}/stores?status=suspended&q={shop.store.handle}")
    assert shop.store.handle in operator.text
    await operator.open(page)
    await operator.send(f"{page}/resume")
    assert "is open again" in operator.notice
    assert (await said(db, shop.store_id)).action == "store.resumed"


async def test_an_app_is_suspended_and_resumed(shop: Shop, operator: Somebody, db: Database) -> None:
    page = f"{HERE}/apps/{shop.app_id}"
    await operator.open(page)
    assert shop.store.handle in operator.text
    await operator.send(f"{page}/suspend")
    assert "is suspended" in operator.notice
    entry = await said(db, audit.SERVICE)
    assert (entry.action, entry.subject) == ("app.suspended", f"app:{shop.app_id}")
    basic = (shop.client_id, shop.client_secret)
    token = await shop.service.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=basic)
    assert token.status_code >= 400
    await operator.send(f"{page}/resume")
    assert "works again" in operator.notice
    token = await shop.service.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=basic)
    assert token.status_code == 200


async def test_a_disabled_person_is_signed_out(
    application: Application, operator: Somebody, maria: Somebody, db: Database
) -> None:
    page = f"{HERE}/accounts/{maria.account.id}"
    await operator.open(page)
    await operator.send(f"{page}/disable")
    assert "cannot come in" in operator.notice
    assert (await said(db, audit.SERVICE)).action == "account.disabled"
    await maria.open("/portal")
    assert maria.path == "/portal/sign-in"
    await operator.send(f"{page}/enable")
    again = await signed_in(application, db, maria.account)
    await again.open("/portal")
    assert again.path == "/portal"
    await again.client.aclose()


async def test_nobody_locks_themselves_out(operator: Somebody) -> None:
    page = f"{HERE}/accounts/{operator.account.id}"
    await operator.open(page)
    assert "Disable Olive Run" not in operator.text
    await operator.send(f"{page}/disable")
    assert operator.seen.status_code == 422
    assert "your own account" in operator.faults[""]
    await operator.open(page)
    assert operator.seen.status_code == 200


async def test_others_do_not_even_see_the_way(maria: Somebody, operator: Somebody) -> None:
    await maria.open("/portal")
    assert HERE not in maria.text
    await operator.open("/portal")
    assert f"{HERE}/health" in operator.text


# --- health --------------------------------------------------------------------------------------------------

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def healthy() -> Seen:
    return Seen(
        Server("18.0", 10_000_000, NOW - timedelta(days=1), 12, 100, NOW),
        [AppliedMigration(migrate.LATEST, "latest", NOW)],
        ImportsNow(1, 0, None),
        Backlog(3, 0, 0, 0.4),
        [Days("events", 9, date(2026, 5, 31), date(2026, 6, 8), ahead=True)],
        [],
        [Overdue("sessions", 3, NOW - timedelta(seconds=4))],
    )


async def test_the_page_tells_of_the_database_and_its_queues(operator: Somebody) -> None:
    await operator.open(f"{HERE}/health")
    for words in ("PostgreSQL", "Up to date", "Deliveries waiting", "Housekeeping", "access", "Connections"):
        assert words in operator.text, words


def test_a_service_that_is_well_has_no_concerns() -> None:
    assert concerns(healthy()) == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"migrations": [AppliedMigration(migrate.LATEST - 1, "older", NOW)]}, "schema is behind"),
        ({"migrations": []}, "schema is behind"),
        ({"days": [Days("events", 0, None, None, ahead=False)]}, "no partition for tomorrow"),
        ({"server": Server("18.0", 1, NOW, 90, 100, NOW)}, "connections"),
        ({"backlog": Backlog(1, 0, 0, 61.0)}, "delivery has waited"),
        ({"backlog": Backlog(1, 0, 2, 0.0)}, "receivers of webhooks fail"),
        ({"imports": ImportsNow(0, 1, NOW - timedelta(minutes=2))}, "import has waited"),
        ({"overdue": [Overdue("sessions", 9, NOW - timedelta(hours=1))]}, "Housekeeping is behind"),
    ],
)
def test_what_is_wrong_is_told(fault: dict[str, object], words: str) -> None:
    seen = healthy()
    for name, value in fault.items():
        setattr(seen, name, value)
    [concern] = concerns(seen)
    assert words in concern.words
