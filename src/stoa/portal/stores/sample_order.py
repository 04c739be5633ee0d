"""Places a sample order in a store that contains only samples, so that people see what their apps receive."""

import secrets
from typing import Any

import msgspec

from stoa.db.query import Executor, Query
from stoa.orders.bodies import NewOrder
from stoa.orders.endpoints import create_order
from stoa.portal.kit.forms import FormError, OnceForm
from stoa.portal.kit.pages import ROOT, Redirect
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.home import pages, store_home
from stoa.portal.stores.writes import REPEATED, Change, carry_out
from stoa.rest.body import convert
from stoa.rest.call import Call
from stoa.rest.endpoint import Created

_MOST = 40  # variants and customers of which one is chosen
IN_STOCK = Query(
    str,
    f"""SELECT v.sku FROM variants v JOIN products p ON p.store_id = $1 AND p.id = v.product_id
         WHERE v.store_id = $1 AND v.deleted_at IS NULL AND v.sku IS NOT NULL AND p.status = 'active'
               AND p.deleted_at IS NULL AND v.track_inventory AND v.on_hand - v.reserved > 0
               AND v.on_hand - v.reserved > coalesce(v.low_stock_threshold, 0)
         ORDER BY v.updated_at, v.id LIMIT {_MOST}""",
)
BUYERS = Query(
    str,
    f"""SELECT email FROM customers WHERE store_id = $1 AND deleted_at IS NULL AND email IS NOT NULL
         ORDER BY id LIMIT {_MOST}""",
)


@pages.form("/stores/{handle}/sample-order", on=store_home, in_shard=True)
async def place_sample_order(visit: Visit, form: OnceForm) -> Redirect:
    """Place the order, and return to the overview, which shows its webhooks and why nothing was placed."""
    if not visit.has_samples(visit.store):
        return Redirect(ROOT, "Sample orders are for development stores. This store sells to customers.", "warn")
    numbers: list[int] = []

    async def work(call: Call) -> Created[Any]:
        body = await _order(call.db, call.store_id)
        placed = await create_order(call, convert(body, NewOrder, digits=call.store.digits))
        numbers[:] = [msgspec.json.decode(placed.doc)["number"]]
        return placed

    try:
        done = await carry_out(visit, form, Change("order.sample_placed", f"store:{visit.store.handle}"), work)
    except FormError as refused:
        return Redirect(ROOT, " ".join(refused.faults.values()), "warn")
    if not done:
        return Redirect(ROOT, REPEATED, "warn")
    return Redirect(ROOT, f"Order #{numbers[0]} is placed in {visit.store.name}. Its webhooks arrive below.")


async def _order(db: Executor, store_id: int) -> dict[str, Any]:
    skus, buyers = await IN_STOCK.all(db, store_id), await BUYERS.all(db, store_id)
    if not skus:
        raise FormError({"": "No product of this store is in stock. Add stock, and try again."})
    body: dict[str, Any] = {
        "line_items": [{"sku": secrets.choice(skus), "quantity": 1}],
        "payment_status": "paid",
        "tags": ["sample"],
    }
    return {**body, "customer": {"email": secrets.choice(buyers)}} if buyers else body
