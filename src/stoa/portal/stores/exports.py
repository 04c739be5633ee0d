"""Lists as CSV files: all rows of a list page with its present filters, streamed page by page."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from starlette.responses import StreamingResponse

from stoa.customers.contract import Customer
from stoa.orders.contract import Order
from stoa.orders.records import Payment
from stoa.portal.kit.csv_file import csv_response
from stoa.portal.kit.forms import FormError
from stoa.portal.kit.list_view import ListSource, list_pages
from stoa.portal.kit.visit import Visit
from stoa.products.contract import Product

T = TypeVar("T")


class Export(msgspec.Struct, Generic[T], frozen=True):
    """The file of a list: its name, its rows, and its columns."""

    name: str
    source: ListSource[T]
    sorts: Sequence[tuple[str, str]]
    offered: Sequence[str]
    columns: dict[str, Callable[[T], Any]]
    fixed: Mapping[str, str] = {}


async def export_list(visit: Visit, export: Export[T]) -> StreamingResponse:
    """Stream the list that the page shows, after the audit log has the name of the person.

    Memory use does not depend on the number of rows: one page of the list is read at a time.
    """
    pages = list_pages(visit, export.source, sorts=export.sorts, offered=export.offered, fixed=export.fixed)
    first = await anext(pages)
    if first.fault:
        raise FormError({"": first.fault})
    async with visit.db.transaction() as db:
        # The names of the filters, not their values: these can be personal data.
        await visit.by.record(
            db, visit.store.id, f"{export.name}.exported", f"store:{visit.store.id}", rows=first.total,
            filters=sorted({**export.fixed, **first.filters}),
        )  # fmt: skip

    async def rows() -> AsyncIterator[list[list[Any]]]:
        yield _rows(export, first.rows)
        async for page in pages:
            yield _rows(export, page.rows)

    return csv_response(f"{visit.store.handle}-{export.name}", list(export.columns), rows())


def _rows(export: Export[T], rows: Sequence[T]) -> list[list[Any]]:
    return [[value(row) for value in export.columns.values()] for row in rows]


def _payment(record: Payment) -> str:
    """A payment or refund in one cell: its kind and amount, how it was made, and its id in the payment system."""
    return " ".join(filter(None, (record.kind, str(record.amount), record.method, record.external_id)))


ORDER_COLUMNS: dict[str, Callable[[Order], Any]] = {
    "number": lambda order: order.number,
    "id": lambda order: order.id,
    "external_id": lambda order: order.external_id,
    "placed_at": lambda order: order.placed_at,
    "status": lambda order: order.status,
    "payment_status": lambda order: order.payment_status,
    "fulfillment_status": lambda order: order.fulfillment_status,
    "currency": lambda order: order.currency,
    "total": lambda order: order.total,
    "amount_paid": lambda order: order.amount_paid,
    "amount_refunded": lambda order: order.amount_refunded,
    "amount_due": lambda order: order.amount_due,
    "balance": lambda order: order.balance,
    "payments": lambda order: [_payment(each) for each in order.payments],
    "expires_at": lambda order: order.expires_at,
    "locations": lambda order: sorted({each.location for line in order.line_items for each in line.allocations}),
    "items": lambda order: [f"{line.quantity} x {line.sku or line.name}" for line in order.line_items],
    "customer_id": lambda order: order.customer_id,
    "first_name": lambda order: order.contact.first_name,
    "last_name": lambda order: order.contact.last_name,
    "email": lambda order: order.contact.email,
    "phone": lambda order: order.contact.phone,
    "address1": lambda order: order.shipping_address and order.shipping_address.address1,
    "address2": lambda order: order.shipping_address and order.shipping_address.address2,
    "postal_code": lambda order: order.shipping_address and order.shipping_address.postal_code,
    "city": lambda order: order.shipping_address and order.shipping_address.city,
    "country_code": lambda order: order.shipping_address and order.shipping_address.country_code,
    "tags": lambda order: order.tags,
}
PRODUCT_COLUMNS: dict[str, Callable[[Product], Any]] = {
    "id": lambda product: product.id,
    "external_id": lambda product: product.external_id,
    "sku": lambda product: product.sku,
    "name": lambda product: product.name,
    "status": lambda product: product.status,
    "price": lambda product: product.price,
    "compare_at_price": lambda product: product.compare_at_price,
    "currency": lambda product: product.currency,
    "brand": lambda product: product.brand,
    "category": lambda product: product.category,
    "tags": lambda product: product.tags,
    "variants": lambda product: product.variants_count,
    "on_hand": lambda product: product.stock.on_hand,
    "reserved": lambda product: product.stock.reserved,
    "available": lambda product: product.stock.available,
    "updated_at": lambda product: product.updated_at,
}
CUSTOMER_COLUMNS: dict[str, Callable[[Customer], Any]] = {
    "id": lambda customer: customer.id,
    "external_id": lambda customer: customer.external_id,
    "email": lambda customer: customer.email,
    "phone": lambda customer: customer.phone,
    "first_name": lambda customer: customer.first_name,
    "last_name": lambda customer: customer.last_name,
    "company": lambda customer: customer.company,
    "status": lambda customer: customer.status,
    "orders_count": lambda customer: customer.orders_count,
    "total_spent": lambda customer: customer.total_spent,
    "last_order_at": lambda customer: customer.last_order_at,
    "marketing_by_email": lambda customer: customer.consents.email.state,
    "marketing_by_sms": lambda customer: customer.consents.sms.state,
    "tags": lambda customer: customer.tags,
    "created_at": lambda customer: customer.created_at,
}
