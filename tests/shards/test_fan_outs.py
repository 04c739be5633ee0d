"""What reads the stores of all shards: the merged answers equal those of one database, and name a shard that does not answer."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from tests.contract.test_statements import ALL
from tests.support.fleet import FENCING, Fleet, copied_database, unused
from tests.support.people import User, create_user, signed_in_browser
from tests.support.shops import Shop

from stoa.access.grants import install
from stoa.accounts.contract import Account
from stoa.accounts.ownership import give
from stoa.app import Application
from stoa.db.fan_out import Everywhere, FanOut
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.settings import Settings
from stoa.usage.rules import COUNTERS
from stoa.webhooks import app_callbacks, app_subscriptions
from stoa.webhooks.app_subscription_rollout import apply_app_subscriptions
from stoa.webhooks.app_subscriptions import AppSubscription

pytestmark = pytest.mark.timeout(300)
FAN_OUTS: dict[str, FanOut[Any]] = {name: query for name, query in ALL if isinstance(query, FanOut)}
EVER, NOW = datetime(2000, 1, 1, tzinfo=UTC), datetime.now(UTC)
NEWEST = 2**62
NOWHERE = "postgresql://stoa@127.0.0.1:1/nowhere"


class Landscape(msgspec.Struct):
    """Three stores with one app and one owner, in the directory at first; what each statement answered then."""

    fleet: Fleet
    shops: list[Shop]
    account: Account
    expected: dict[str, list[Any]] = {}

    @property
    def app_id(self) -> int:
        return self.shops[0].app_id

    def arguments(self) -> dict[str, tuple[Any, ...]]:
        """The arguments of each statement, by the name of its constant."""
        stores, app, me = [shop.store_id for shop in self.shops], self.app_id, self.account.id
        day, week = NOW.date(), NOW.date() - timedelta(days=7)
        hours = (app, NOW - timedelta(days=1), NOW + timedelta(hours=1))
        return {
            "DAYS_ALL_STORES": (app, week, day),
            "OPERATIONS_ALL_STORES": (app, week, day),
            "STORES": (app, week, day),
            "HOURS_ALL_STORES": hours,
            "OPERATIONS_BY_HOUR_ALL_STORES": hours,
            "STORES_BY_HOUR": hours,
            "REQUESTS_OF_APPS": ([app], week),
            "REQUESTS_OF_STORES": (stores, week),
            "REQUESTS": (app, 0, NEWEST, 0, 999, False, None, None, "", 4),
            "REQUEST": (app, 12),
            "INSTALLATIONS_PAGE": (app, 0, EVER, ["installed", "uninstalled"], 2),
            "LIST_APPS": (),
            "GET_APP": ("", app),
            "INSTALLATIONS_OF_APP": (app,),
            "EVERYWHERE": (NOW + timedelta(days=1), "", "store.shared", "", None, None, 2),
            "ALL_ACTIONS": (),
            "OWNED_APPS": (me, ""),
            "OWNED_APP": (me, app),
            "OWNED_STORES": (me, ""),
            "OWNED_STORE": (me, self.shops[0].store.handle),
            "ASKING_STORES": (app, ["customers:erase"], None),
            "RECEIVERS": (20,),
            "ERASURES": (EVER,),
            "STORES_OF": (app,),
            "UNFINISHED_IMPORT": (self.shops[0].filled["import_id"],),
            "FAILING_RECEIVERS": (),
            "FIRST_FAILING_OF_APPS": ([app],),
            "FIRST_FAILING_OF_STORES": (stores,),
            "FAILING_OF_APPS": ([app],),
            "DECLARED": (app,),
            "BY_NAME": (app, "news"),
            "BY_ID": (app, 1),
            "HAS_SUBSCRIPTION": (me,),
            "APP_HEALTH": ([app],),
            "LANES_OF_APP": (app, [str(each) for each in stores], 2),
            "SUBSCRIPTIONS_OF_APP": (app, [str(each) for each in stores], NEWEST, NEWEST, 2),
            "STORES_OF_APP": (app, 2),
            "CALLABLE_STORES": (me, 2),
            "ENDPOINT_ON_STORES": (app, 2),
            "operators.STORES": (NEWEST, "", "", 2),
            "operators.APPS": (NEWEST, "", "", 3),
        }

    def arguments_of(self, name: str) -> tuple[Any, ...]:
        given, constant = self.arguments(), name.rsplit(".", 1)[1]
        operators = f"operators.{constant}"
        return given[operators if operators in given and ".portal." in name else constant]

    @asynccontextmanager
    async def everywhere(self, *away: str) -> AsyncGenerator[Everywhere]:
        """Reads from all shards; the server of those that are away does not answer."""
        directory = Database(self.fleet.directory.url, name=FENCING)

        def read_url(_: int, sealed: bytes) -> str:
            return urls[sealed]

        rows = await directory.fetch("SELECT name, url FROM shards")
        urls = {sealed: NOWHERE if name in away else self.fleet.shards[name].url for name, sealed in rows}
        shards = Shards(directory, read_url)
        await shards.look()
        try:
            yield Everywhere(directory, shards)
        finally:
            await shards.close()
            await directory.close()


@pytest.fixture(scope="module")
async def landscape(replicating: str, settings: Settings) -> Landscape:
    names = ("pages", "pages_east", "pages_west")
    urls = [await copied_database(replicating, unused(name)) for name in names]
    fleet = Fleet(settings, urls[0], {"east": urls[1], "west": urls[2]})
    shops = [await fleet.open_shop() for _ in range(3)]
    application, db = Application(fleet.settings), Database(fleet.directory.url, size=2)
    user = await create_user(application, db)
    await user.client.aclose()
    made = Landscape(fleet, shops, user.account)
    async with fleet.operator() as by:
        app = str(made.app_id)
        for number, shop in enumerate(shops):
            await give(by, user.email, store=shop.store.handle)
            if number:
                await install(by, app, shop.store.handle)
            await fill_log(db, made.app_id, shop.store_id, number)
        await give(by, user.email, app=app)
        await app_callbacks.set_callbacks(by, app, endpoint_url="https://app.example.com/hook", return_urls=[])
        await app_subscriptions.declare(
            by, app, AppSubscription("news", ["product.*"], url="https://app.example.com/n")
        )
    await apply_app_subscriptions(db)
    await db.fetch(
        """UPDATE lanes SET breaker = 'open', failing_since = now() - make_interval(mins => store_id::integer),
                  last_attempt_at = now() - make_interval(mins => webhook_id::integer)"""
    )
    made.expected = {name: await query.all(db, *made.arguments_of(name)) for name, query in FAN_OUTS.items()}
    await application.close()
    await db.close()
    await fleet.add_shards()
    await fleet.move(shops[0], "east")
    await fleet.move(shops[1], "west")
    return made


async def fill_log(db: Database, app_id: int, store_id: int, number: int) -> None:
    columns = ", ".join(COUNTERS)
    values = ", ".join(str(10 * (number + 1) + place) for place in range(len(COUNTERS)))
    for operation in ("list_products", "get_order"):
        await db.fetch(
            f"""INSERT INTO usage_days (store_id, app_id, day, operation, {columns})
                VALUES ($1, $2, $3, $4, {values}) ON CONFLICT DO NOTHING""",
            store_id, app_id, date.today(), operation,  # noqa: DTZ011
        )  # fmt: skip
        await db.fetch(
            f"""INSERT INTO usage_hours (store_id, app_id, hour, operation, {columns})
                VALUES ($1, $2, date_trunc('hour', now()), $3, {values}) ON CONFLICT DO NOTHING""",
            store_id, app_id, operation,
        )  # fmt: skip
    await db.fetch(
        """INSERT INTO audit_entries (store_id, position, action, actor, subject, detail, request_id, created_at, seal)
           VALUES ($1, 900, 'customer.erased', 'app:1', 'customer:' || $2::bigint, '{}', 'req', now(), '\\x00')""",
        store_id,
        number,
    )
    for place in range(3):
        await db.fetch(
            """INSERT INTO request_log (store_id, app_id, id, at, request_id, method, operation, path, status, code, faults,
                                        duration_us)
               VALUES ($1, $2, $3, now(), 'req', 'GET', 'get_order', '/orders', 200, '', '[]', 1000)""",
            store_id, app_id, 10 + number + 3 * place,
        )  # fmt: skip


def test_every_fan_out_has_an_example(landscape: Landscape) -> None:
    for name in FAN_OUTS:
        assert landscape.expected[name], f"{name} found nothing, so its merge was not tested"


@pytest.mark.parametrize("name", FAN_OUTS)
async def test_the_shards_answer_as_one_database(landscape: Landscape, name: str) -> None:
    async with landscape.everywhere() as everywhere:
        found = await FAN_OUTS[name].all(everywhere, *landscape.arguments_of(name))
        # The log of the service has entries about the shards and the moves, too.
        shown = [comparable(row) for row in found if not str(row).startswith(("shard.", "store.move"))]
        assert shown == [comparable(row) for row in landscape.expected[name]]
        assert everywhere.away == set()


def comparable(row: Any) -> Any:
    """A row without the name of the shard, which a move changes."""
    return msgspec.structs.replace(row, shard="") if hasattr(row, "shard") else row


async def test_rows_that_a_move_left_behind_count_for_nobody(landscape: Landscape) -> None:
    shop = landscape.shops[0]
    async with landscape.fleet.connection("") as directory:
        await directory.fetch("INSERT INTO store_residence VALUES ($1, false)", shop.store_id)
        await directory.fetch(
            "INSERT INTO installations (store_id, app_id, scopes) VALUES ($1, $2, '{}')", shop.store_id, shop.app_id
        )
        try:
            async with landscape.everywhere() as everywhere:
                for name in [each for each in FAN_OUTS if each.endswith((".INSTALLATIONS_OF_APP", ".LIST_APPS"))]:
                    assert (
                        await FAN_OUTS[name].all(everywhere, *landscape.arguments_of(name)) == landscape.expected[name]
                    )
        finally:
            await directory.fetch("DELETE FROM installations WHERE store_id = $1", shop.store_id)
            await directory.fetch("DELETE FROM store_residence WHERE store_id = $1", shop.store_id)


async def test_a_shard_that_is_away_is_named_and_the_others_answer(landscape: Landscape) -> None:
    for name, query in FAN_OUTS.items():
        async with landscape.everywhere("east") as everywhere:
            found = await query.all(everywhere, *landscape.arguments_of(name))
            assert everywhere.away == {"east"}, name
            assert isinstance(found, list), name


@pytest.fixture
async def application(landscape: Landscape) -> AsyncIterator[Application]:
    made = Application(landscape.fleet.settings)
    await made.shards.look()
    yield made
    await made.close()


@pytest.fixture
async def developer(landscape: Landscape, application: Application) -> AsyncIterator[User]:
    """The owner of the app and of the stores, who is an operator, too."""
    await application.database.fetch("UPDATE accounts SET operator = true WHERE id = $1", landscape.account.id)
    user = await signed_in_browser(application, application.database, landscape.account)
    yield user
    await user.client.aclose()


PAGES = (
    "", "/apps", "/stores", "/apps/{0}", "/apps/{0}/usage", "/apps/{0}/requests", "/apps/{0}/webhooks", "/apps/{0}/endpoint",
    "/apps/{0}/stores", "/apps/{0}/tail", "/access-token", "/search?q=order", "/operators/stores",
    "/operators/apps", "/operators/apps/{0}", "/operators/audit?log=all", "/operators/health", "/operators/load",
    "/operators/shards",
)  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_names_the_shard_that_does_not_answer(
    landscape: Landscape, application: Application, developer: User, path: str
) -> None:
    page = f"/portal{path.format(landscape.app_id)}"
    await developer.open(page)
    assert developer.response.status_code == 200
    assert "not answer" not in developer.text
    await cut_off(application, "east")
    await developer.open(page)
    assert developer.response.status_code == 200
    assert "east does not answer" in developer.text.lower().replace("shard east", "east")


async def cut_off(application: Application, name: str) -> None:
    """Let the server of a shard not answer."""
    shards = application.shards
    read_url = shards._read_url  # pyright: ignore[reportPrivateUsage]
    url = (await shards.database(name)).url

    def read_other_url(number: int, sealed: bytes) -> str:
        found = read_url(number, sealed)
        return NOWHERE if found == url else found

    shards._read_url = read_other_url  # pyright: ignore[reportPrivateUsage]
    await shards.look()


@pytest.mark.parametrize("path", ["/apps/{0}/webhooks/{1}/{2}", "/apps/{0}/webhooks/{1}/{2}/deliveries"])
async def test_the_pages_of_a_subscription_in_a_shard_are_served_from_there(
    landscape: Landscape, developer: User, path: str
) -> None:
    shop = landscape.shops[0]
    await developer.open("/portal" + path.format(landscape.app_id, shop.store.handle, shop.filled["webhook_id"]))
    assert developer.response.status_code == 200
    assert "hooks.example.com" in developer.text


async def test_a_subscription_is_created_in_the_shard_of_its_store(landscape: Landscape, developer: User) -> None:
    shop = landscape.shops[1]
    await developer.open(f"/portal/apps/{landscape.app_id}/new-webhook")
    fields = {"store": shop.store.handle, "url": "https://hooks.example.com/new", "events": "product.created"}
    await developer.submit(f"/portal/apps/{landscape.app_id}/new-webhook", fields)
    assert developer.response.status_code == 200, developer.text
    found = "SELECT count(*) FROM webhooks WHERE store_id = $1 AND url LIKE '%/new'"
    assert await landscape.fleet.one("west", found, shop.store_id) == 1
    assert await landscape.fleet.one("", found, shop.store_id) == 0


async def test_an_operator_opens_the_page_and_the_log_of_a_store_in_a_shard(
    landscape: Landscape, developer: User
) -> None:
    handle = landscape.shops[0].store.handle
    await developer.open(f"/portal/operators/stores/{handle}")
    assert developer.response.status_code == 200
    await developer.open(f"/portal/operators/audit?store={handle}")
    assert "Store created" in developer.text


async def test_installations_are_not_listed_in_part(landscape: Landscape, application: Application) -> None:
    shop = landscape.shops[0]
    credentials = httpx.BasicAuth(shop.client_id, shop.client_secret)
    transport = httpx.ASGITransport(application, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver", auth=credentials) as client:
        listed: list[int] = []
        cursor: str | None = ""
        while cursor is not None:
            more = {"cursor": cursor} if cursor else {}
            page = (await client.get("/oauth/installations", params={"limit": "1", **more})).json()
            listed += [each["store"]["id"] for each in page["data"]]
            cursor = page["meta"]["next_cursor"]
        assert listed == sorted(each.store_id for each in landscape.shops)
        await cut_off(application, "west")
        refused = await client.get("/oauth/installations")
        assert (refused.status_code, refused.json()["error"]) == (503, "temporarily_unavailable")
        assert "west" in refused.json()["error_description"]
