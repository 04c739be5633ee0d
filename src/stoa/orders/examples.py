"""Example requests about orders: the documentation shows them, and the tests send them."""

from typing import Any

from stoa.customers.examples import HOME, NEW_CUSTOMER
from stoa.products.examples import SMALL

_NAME = {name: NEW_CUSTOMER[name] for name in ("first_name", "last_name")}

NEW_ORDER: dict[str, Any] = {
    "status": "pending",
    "payment_status": "unpaid",
    "customer": {"email": NEW_CUSTOMER["email"], **_NAME},
    "line_items": [
        {"sku": SMALL, "quantity": 1, "tax_total": "11.80"},
        {
            "sku": SMALL,
            "quantity": 1,
            "unit_price": "49.00",
            "metadata": {"monogram": "M. O."},
            "discounts": [{"title": "Summer sale", "kind": "percentage", "value": "10.00"}],
            "tax_lines": [{"title": "Sales tax", "rate": "20.00", "amount": "8.82"}],
        },
        {"name": "Gift wrapping", "unit_price": "4.50", "quantity": 1, "requires_shipping": False, "taxable": False},
    ],
    "shipping_total": "6.50",
    "tax_lines": [{"title": "Sales tax on shipping", "rate": "20.00", "amount": "1.30"}],
    "discounts": [{"code": "WELCOME5", "title": "Welcome", "kind": "fixed", "value": "5.00"}],
    "shipping_address": {**_NAME, **HOME},
    "shipping_method": "Parcel post",
    "note": "Please leave it with the neighbor.",
    "tags": ["web"],
    "metadata": {"channel": "web"},
}
ORDER_CHANGES: dict[str, Any] = {
    "shipping_address": {"address2": "Apartment 3"},
    "shipping_total": "4.00",
    "tax_lines": [{"title": "Sales tax on shipping", "rate": "20.00", "amount": "0.80"}],
    "note": "The doorbell is broken: please knock.",
    "tags": ["web", "gift"],
    "metadata": {"channel": "phone"},
}
STATUS_CHANGE: dict[str, Any] = {
    "status": "processing",
    "payment_status": "paid",
    "comment": "Paid by card at the counter.",
}
TRACKING: dict[str, Any] = {
    "carrier": "Parcel post",
    "number": "PP-11",
    "url": "https://post.example.com/PP-11",
}
REFUND: dict[str, Any] = {"shipping_amount": "6.50", "reason": "Arrived late", "note": "Agreed by phone."}
PAYMENT: dict[str, Any] = {"payment": {"amount": "50.00", "method": "card", "external_id": "pay-7781"}}
SHIPMENT: dict[str, Any] = {"status": "shipped", "tracking": TRACKING}
ADDED_LINES: dict[str, Any] = {"line_items": [{"sku": SMALL, "quantity": 1, "merge": True}]}
LINE_CHANGES: dict[str, Any] = {
    "quantity": 1,
    "unit_price": "55.00",
    "tax_lines": [{"title": "Sales tax", "rate": "20.00", "amount": "11.00"}],
    "metadata": {"gift_wrap": True},
}
NEW_COMMENT: dict[str, Any] = {"body": "The parcel leaves on Monday.", "visibility": "customer"}
NEW_COPY: dict[str, Any] = {"status": "draft", "reprice": True}
