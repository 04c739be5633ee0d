"""The search of a store: exact matches open directly or come first, and viewers find no customers."""

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.store_pages import place_order, rows
from tests.support.people import User, as_operator
from tests.support.shops import SHIRT, Shop


async def test_anything_is_found_by_its_names(
    shop: Shop, maria: User, zeno: User, store_url: str, db: Database, settings: Settings
) -> None:
    [shirt] = await shop.add(SHIRT)
    placed = await place_order(shop, external_id="web-77")
    await place_order(shop, customer={"email": "zeno@example.com", "phone": "+32470000001"})
    order, customer = f"{store_url}/orders/{placed['id']}", f"{store_url}/customers/{placed['customer_id']}"
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    for wanted, path in (
        (f"%23{placed['number']}", order),
        ("web-77", order),
        ("ls-s", f"{store_url}/products/{shirt}"),
        ("erp-1", f"{store_url}/products/{shirt}"),
        ("%2B32%20470%2000%2000%2001", customer.rpartition("/")[0]),
    ):
        await maria.open(f"{store_url}/search?q={wanted}")
        assert maria.path.startswith(path), wanted
        if "customers" not in path:
            await zeno.open(f"{store_url}/search?q={wanted}")
            assert zeno.path == path, wanted
    await maria.open(f"{store_url}/search?q=ADA@example.com")
    assert "Exact matches" in maria.text
    assert rows(maria.text) == ["Ada Byron", f"#{placed['number']}"], "the customer, and the order with this contact"
    await maria.open(f"{store_url}/search?q=byr")
    assert set(rows(maria.text)) == {"Ada Byron", f"#{placed['number']}"}
    await maria.open(f"{store_url}/search?q=line")
    assert rows(maria.text) == ["Linen Shirt"]
    for hidden in ("ada@example.com", "byr", "%2B32470000001"):
        await zeno.open(f"{store_url}/search?q={hidden}")
        assert "No results" in zeno.text, hidden
    for hostile in ("", "%00", "'", "a,b", "9" * 40, "%23%23", "@", "%25"):
        await maria.open(f"{store_url}/search?q={hostile}")
        assert maria.response.status_code == 200, hostile
