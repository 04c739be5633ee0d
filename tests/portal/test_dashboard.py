"""The overview: decisions for a merchant, apps with their health for a developer, and a checklist that can be dismissed."""

from stoa.access.operator import Operator
from stoa.db.pool import Database
from tests.portal.path_params import add_usage
from tests.portal.store_pages import place_order
from tests.support.ownership import create_app, create_store
from tests.support.people import User, signed_in_browser
from tests.support.shops import SHIRT, Shop


async def test_a_merchant_sees_what_waits_for_her(
    shop: Shop, maria: User, zeno: User, store_url: str, operator: Operator
) -> None:
    await maria.open("/portal")
    assert "Nothing waits for you." in maria.text
    assert "Get started" not in maria.text, "the checklist is for developers"
    low = {**SHIRT, "variants": [{**SHIRT["variants"][0], "low_stock_threshold": 9}, SHIRT["variants"][1]]}
    [product] = await shop.add(low)
    for _ in range(2):
        await place_order(shop, status="processing")
    await maria.open("/portal")
    for expected in ("Orders to ship", "Suspected duplicates", "Products with low stock"):
        assert expected in maria.text, expected
    assert f"{store_url}/products?ids={product}" in maria.text
    await maria.open(f"{store_url}/products?ids={product}")
    assert "Linen Shirt" in maria.text
    await create_store(operator, zeno)
    await zeno.open("/portal")
    assert "Orders to ship" not in zeno.text


async def test_a_developer_sees_the_health_of_apps_and_dismisses_the_checklist(
    shop: Shop, maria: User, operator: Operator, db: Database
) -> None:
    await maria.open("/portal")
    assert "Get started" in maria.text
    app = await create_app(operator, maria)
    await add_usage(operator, shop.store_id, app.app_id)
    await maria.open("/portal")
    assert "requests in 7 days" in maria.text
    assert "Get started" in maria.text
    await maria.submit("/portal/checklist/dismiss")
    elsewhere = await signed_in_browser(maria.application, db, maria.account)
    for browser in (maria, elsewhere):
        await browser.open("/portal")
        assert "Get started" not in browser.text
    await elsewhere.client.aclose()
