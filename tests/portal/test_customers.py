"""Customer pages, and personal data that only owners of a store can see."""

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.store_pages import ADDRESS, place_order, rows
from tests.support.people import User, as_operator
from tests.support.shops import SHIRT, Shop


async def test_a_customer_is_shown_with_addresses_and_orders(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    customer = placed["customer_id"]
    address = {**ADDRESS, "label": "Work", "address1": "2 Weir Street"}
    await shop.client.post(f"/customers/{customer}/addresses", json=address)
    metadata = {"own": "private to one app", "shared.tier": "gold"}
    await shop.client.patch(f"/customers/{customer}/metadata", json=metadata)
    await maria.open(f"{store_url}/customers")
    assert rows(maria.text) == ["Ada Byron"]
    await maria.open(f"{store_url}/customers/{customer}")
    for expected in (
        "Ada Byron",
        "ada@example.com",
        "Work",
        "2 Weir Street",
        "9000 Ghent",
        f"#{placed['number']}",
        "gold",
    ):
        assert expected in maria.text, expected
    assert "private to one app" not in maria.text


async def test_customers_are_found_by_name(shop: Shop, maria: User, store_url: str) -> None:
    for name in ("Ada", "Zeno"):
        await shop.client.post("/customers", json={"email": f"{name}@example.com", "first_name": name})
    await maria.open(f"{store_url}/customers?q=zen")
    assert rows(maria.text) == ["Zeno"]


async def test_an_erased_customer_is_not_shown(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    await shop.client.delete(f"/customers/{placed['customer_id']}")
    await maria.open(f"{store_url}/customers/{placed['customer_id']}")
    assert maria.response.status_code == 404
    await maria.open(f"{store_url}/orders/{placed['id']}")
    assert maria.response.status_code == 200
    assert "Byron" not in maria.text
    assert "Mill Lane" not in maria.text


async def test_only_owners_see_personal_data(shop: Shop, zeno: User, db: Database, settings: Settings) -> None:
    await shop.add(SHIRT)
    customer = {"email": "mina@example.com", "first_name": "Wilhelmina", "last_name": "Byron"}
    placed = await place_order(shop, customer=customer, note="Ring at Wilhelmina's.")
    path = f"/orders/{placed['id']}"
    await shop.client.post(f"{path}/comments", json={"body": "Wilhelmina called."})
    await shop.client.patch(path, json={"contact": {"phone": "+3225550100"}})
    await shop.client.put(f"{path}/status", json={"status": "cancelled", "reason": "Wilhelmina changed her mind."})
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    store_url = f"/portal/stores/{shop.store.handle}"
    for page in (
        "orders",
        f"orders/{placed['id']}",
        "customers",
        f"customers/{placed['customer_id']}",
        "customers?q=mina",
    ):
        await zeno.open(f"{store_url}/{page}")
        assert zeno.response.status_code == 200
        for personal in ("Wilhelmina", "Byron", "mina@example.com", "Mill Lane", "Ghent", "3225550100"):
            assert personal not in zeno.text, f"{page} shows {personal}"
    assert "owner" in zeno.text
    await zeno.open(f"{store_url}/orders/{placed['id']}")
    assert "Cancelled" in zeno.text


async def test_a_viewer_cannot_search_for_personal_data(
    shop: Shop, zeno: User, db: Database, settings: Settings
) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    for query in ("q=ada", "q=nobody", "email=ada@example.com", "phone=1"):
        await zeno.open(f"/portal/stores/{shop.store.handle}/orders?{query}")
        assert rows(zeno.text) == [f"#{placed['number']}"], query
