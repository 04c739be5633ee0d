"""The button "Place a sample order": once for each shown form, and only where no customer is affected."""

import asyncio
import re

from stoa.access.operator import Operator
from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.demo.development_stores import create_development_store
from tests.support.ownership import create_app, create_store
from tests.support.people import SAME_ORIGIN, User

_KEY = re.compile(r'action="([^"]+/sample-order)".*?name="key" value="([^"]+)"', re.DOTALL)


async def orders_of(db: Database, handle: str) -> int:
    rows = await db.fetch(
        "SELECT count(*) FROM orders o JOIN stores s ON s.id = o.store_id WHERE s.handle = $1", handle
    )
    return rows[0][0]


async def development_store(operator: Operator, user: User) -> str:
    app = await create_app(operator, user)
    store = await create_development_store(operator, user.account.id, name="Trial", app=app.client_id)
    return store.handle


def form_of(user: User) -> tuple[str, str]:
    found = _KEY.search(user.response.text)
    assert found, "the page has no button for a sample order"
    return found[1], found[2]


async def test_a_form_that_is_submitted_twice_at_once_places_one_order(
    maria: User, operator: Operator, db: Database
) -> None:
    handle = await development_store(operator, maria)
    before = await orders_of(db, handle)
    await maria.open("/portal")
    assert 'data-rows="6"' in maria.text
    path, key = form_of(maria)
    assert path == f"/portal/stores/{handle}/sample-order"
    fields = {"_token": maria.token, "key": key}
    await asyncio.gather(*(maria.client.post(path, data=fields, headers=SAME_ORIGIN) for _ in range(3)))
    assert await orders_of(db, handle) == before + 1


async def test_the_notice_names_the_order(maria: User, operator: Operator, db: Database) -> None:
    handle = await development_store(operator, maria)
    await maria.open("/portal")
    path, key = form_of(maria)
    await maria.submit(path, key=key)
    assert maria.path == "/portal"
    assert re.match(r"Order #\d+ is placed in Trial", maria.notice)
    await maria.submit(path, key=key)
    assert "Nothing was done twice." in maria.notice
    rows = await db.fetch(
        """SELECT e.actor, o.payment_status FROM orders o JOIN stores s ON s.id = o.store_id
             JOIN events e ON e.store_id = o.store_id AND e.resource_id = o.id AND e.type = 'order.created'
            WHERE s.handle = $1 ORDER BY o.id DESC LIMIT 1""",
        handle,
    )
    assert [tuple(row) for row in rows] == [('{"type":"account"}', "paid")]


async def test_a_store_that_sells_has_no_sample_orders(maria: User, operator: Operator, db: Database) -> None:
    handle = await create_store(operator, maria)
    await create_app(operator, maria)
    await maria.open("/portal")
    assert "sample-order" not in maria.text
    await maria.submit(f"/portal/stores/{handle}/sample-order", key="k")
    assert "This store sells to customers" in maria.notice
    assert await orders_of(db, handle) == 0


async def test_a_viewer_of_a_development_store_sees_no_button(maria: User, zeno: User, operator: Operator) -> None:
    handle = await development_store(operator, maria)
    await give(operator, zeno.account.email, store=handle, role="viewer")
    await zeno.open("/portal")
    assert "sample-order" not in zeno.text
