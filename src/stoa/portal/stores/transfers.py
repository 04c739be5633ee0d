"""The page that moves stock between two locations: all rows in one transaction, with entries of the ledger, or none."""

from typing import Any

import msgspec

from stoa.accounts.contract import Right
from stoa.inventory import queries as inventory
from stoa.inventory.contract import INVENTORY, Adjustments, StockLevel
from stoa.inventory.endpoints import adjust_inventory
from stoa.portal.kit.forms import FormError, OnceForm
from stoa.portal.kit.list_view import ListSource, find_rows, list_view
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.order_forms import Line
from stoa.portal.stores.orders import locations_to_choose
from stoa.portal.stores.products import PRODUCT_LIST, levels_of, pictures_of
from stoa.portal.stores.queries import NAMED_VARIANTS
from stoa.portal.stores.writes import REPEATED, Change, carry_out, show_all_faults, whole
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.body import convert
from stoa.rest.call import Call

pages = Pages()
_STOCK = ListSource(INVENTORY, inventory.INVENTORY, StockLevel)
_BY_VARIANT = (("id", "Oldest first"),)
_NOTHING = "0"  # the id of no product


class TransferForm(OnceForm):
    """Units of variants that move from one location to another."""

    source: Line = ""
    target: Line = ""
    units: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    reference: Line = ""


@pages.page("/stores/{handle}/transfer", nav="list_stores", right=Right.CHANGE)
async def transfer_page(visit: Visit) -> View:
    """The variants that the first location holds, and what is available of each at both."""
    locations = await locations_to_choose(visit)
    if not locations:
        return View("stores/transfer.html", {"locations": []})
    codes = [each.code for each in locations]
    source = code if (code := visit.query("source")) in codes else DEFAULT_LOCATION
    others = [each for each in codes if each != source]
    target = code if (code := visit.query("target")) in others else others[0]
    wanted = visit.query("q").strip()
    fixed = {"location": source, **(await _products(visit, wanted) if wanted else {})}
    stock = await list_view(visit, _STOCK, sorts=_BY_VARIANT, offered=(), fixed=fixed)
    ids = [each.variant_id for each in stock.rows]
    show_all_faults(visit, "units", ids)
    context: dict[str, Any] = {
        "locations": locations,
        "source": source,
        "target": target,
        "wanted": wanted,
        "stock": stock,
        "variants": await NAMED_VARIANTS.all(visit.db, visit.store.id, ids),
        "levels": {
            variant: {each.code: each.available for each in found}
            for variant, found in (await levels_of(visit, ids)).items()
        },
        "pictures": await pictures_of(visit, ids),
        "query": visit.query_string,
    }
    return View("stores/transfer.html", context)


@pages.form("/stores/{handle}/transfer", on=transfer_page, in_shard=True)
async def transfer_stock(visit: Visit, form: TransferForm) -> Redirect:
    moved = {variant: count for variant, count in form.units.items() if count.strip("0")}
    if not moved:
        raise FormError(units="Enter the units to transfer.")
    items = [
        {
            "variant_id": whole(variant),
            "op": "transfer",
            "location": form.source,
            "to_location": form.target,
            "quantity": whole(count),
        }
        for variant, count in moved.items()
    ]
    body = {"items": items, **({"reference": form.reference} if form.reference else {})}
    fields = {"/reference": "reference"}
    for n, variant in enumerate(moved):
        fields |= {f"/items/{n}": f"units[{variant}]"}
        fields |= {f"/items/{n}/location": "source", f"/items/{n}/to_location": "target"}

    async def work(call: Call) -> Any:
        return await adjust_inventory(call, convert(body, Adjustments, digits=call.store.digits))

    detail = {"to": form.target, "variants": len(items)}
    done = await carry_out(visit, form, Change("stock.transferred", f"location:{form.source}", fields, detail), work)
    url = f"{ROOT}/stores/{visit.store.handle}/transfer"
    return Redirect(url, "The stock was transferred." if done else REPEATED, "good" if done else "warn")


async def _products(visit: Visit, wanted: str) -> dict[str, str]:
    """The filter of the products that a search finds."""
    found = await find_rows(visit, PRODUCT_LIST, q=wanted)
    return {"product_id": ",".join(str(each.id) for each in found) or _NOTHING}
