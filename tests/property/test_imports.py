"""Importing, listing and importing the list again changes nothing, for any catalog."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.imports.files import catalog, events, import_file, lines
from tests.support.shops import open_shop

from stoa.app import Application
from stoa.db.pool import Database

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
WORD = st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=12)
NAMES: st.SearchStrategy[str] = st.tuples(WORD, TEXT).map("".join)
MONEY = st.integers(0, 10**9).map(lambda minor: f"{minor // 100}.{minor % 100:02}")
WEIGHT = st.decimals(0, 1000, places=3).map(float) | st.integers(0, 1000)
METADATA: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True),
    TEXT | st.integers(-(2**53), 2**53) | st.booleans() | st.decimals(-1000, 1000, places=2).map(float),
    max_size=3,
)
OF_IMAGE: dict[str, st.SearchStrategy[str]] = {
    "url": st.integers(1, 5).map(lambda n: f"https://images.example.com/{n}.jpg")
}
IMAGES = st.lists(st.fixed_dictionaries(OF_IMAGE, optional={"alt": TEXT}), max_size=3)
OF_VARIANT: dict[str, st.SearchStrategy[Any]] = {
    "barcode": WORD,
    "price": MONEY,
    "compare_at_price": MONEY,
    "weight": WEIGHT,
    "track_inventory": st.booleans(),
    "allow_backorder": st.booleans(),
    "low_stock_threshold": st.none() | st.integers(0, 50),
    "metadata": METADATA,
    "stock": st.fixed_dictionaries({"on_hand": st.integers(0, 99)}),
}
OF_PRODUCT: dict[str, st.SearchStrategy[Any]] = {
    "description": TEXT,
    "status": st.sampled_from(["active", "draft", "archived"]),
    "compare_at_price": MONEY | st.none(),
    "cost_price": MONEY,
    "brand": NAMES,
    "category": NAMES,
    "tags": st.lists(NAMES.map(lambda name: name[:64]), max_size=4),
    "images": IMAGES,
    "weight": WEIGHT,
    "weight_unit": st.sampled_from(["g", "kg", "oz", "lb"]),
    "requires_shipping": st.booleans(),
    "taxable": st.booleans(),
    "track_inventory": st.booleans(),
    "seo": st.fixed_dictionaries({}, optional={"title": TEXT, "description": TEXT}),
    "metadata": METADATA,
}


@st.composite
def products(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A few products with unique names, SKUs and external ids, and any number of variants."""
    found: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        product = draw(st.fixed_dictionaries({"name": NAMES, "price": MONEY}, optional=OF_PRODUCT))
        product |= {"name": f"{product['name']} {number}", "external_id": f"erp-{number}"}
        sizes = draw(st.lists(NAMES, min_size=0, max_size=3, unique=True))
        if sizes:
            product["options"] = [{"name": "Size", "values": sizes}]
            product["variants"] = [
                {
                    **draw(st.fixed_dictionaries({}, optional=OF_VARIANT)),
                    "sku": f"S-{number}-{place}",
                    "option_values": {"Size": size},
                }
                for place, size in enumerate(sizes)
            ]
        else:
            product |= {"sku": f"S-{number}", "stock": {"on_hand": draw(st.integers(0, 99))}}
        found.append(product)
    return found


@given(rows=products(), match_by=st.sampled_from(["id", "sku", "external_id"]))
async def test_importing_an_export_changes_nothing(
    application: Application, db: Database, rows: list[dict[str, Any]], match_by: str
) -> None:
    shop = await open_shop(application, db)
    job = await import_file(shop, lines(rows))
    assert (job["status"], job["counts"]["created"]) == ("succeeded", len(rows)), job["errors"]
    before, told = await catalog(shop), await events(shop)
    again = await import_file(shop, lines(before.values()), match_by=match_by)
    assert (again["status"], again["counts"]["unchanged"]) == ("succeeded", len(rows)), again["errors"]
    assert await catalog(shop) == before
    assert await events(shop) == [*told, "product.import_finished"]

    empty = await open_shop(application, db)
    moved = await import_file(empty, lines(before.values()), mode="create")
    assert (moved["status"], moved["counts"]["created"]) == ("succeeded", len(rows)), moved["errors"]
    assert [_bare(each) for each in (await catalog(empty)).values()] == [_bare(each) for each in before.values()]
    await shop.client.aclose()
    await empty.client.aclose()


def _bare(value: Any) -> Any:
    """A resource without the ids and times that its store assigned."""
    given = {"id", "product_id", "created_at", "updated_at"}
    if isinstance(value, dict):
        return {name: _bare(each) for name, each in value.items() if name not in given}  # pyright: ignore[reportUnknownVariableType]
    return [_bare(each) for each in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]
