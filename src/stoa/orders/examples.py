"""Example request bodies of the documentation; the tests send each of them."""

from typing import Any

NEW_ORDER: dict[str, Any] = {
    "status": "pending",
    "payment_status": "unpaid",
    "customer": {"email": "mira.lindqvist@example.com", "first_name": "Mira", "last_name": "Lindqvist"},
    "line_items": [
        {"sku": "LS-S", "quantity": 1, "tax_total": "11.80"},
        {"sku": "LS-S", "quantity": 1, "unit_price": "49.00", "metadata": {"monogram": "M. L."}},
    ],
    "shipping_total": "6.50",
    "discount_total": "5.00",
    "shipping_address": {
        "first_name": "Mira",
        "last_name": "Lindqvist",
        "address1": "14 Ferry Lane",
        "city": "Portreath",
        "postal_code": "TR16 4NQ",
        "country_code": "GB",
    },
    "shipping_method": "Parcel post",
    "note": "Please leave it with the neighbour.",
    "tags": ["web"],
    "metadata": {"channel": "web"},
}
ORDER_CHANGES: dict[str, Any] = {
    "shipping_address": {"address2": "Flat 3"},
    "shipping_total": "4.00",
    "note": "The bell is broken: please knock.",
    "tags": ["web", "gift"],
    "metadata": {"channel": "phone"},
}
STATUS_CHANGE: dict[str, Any] = {
    "status": "processing",
    "payment_status": "paid",
    "comment": "Paid by card at the counter.",
}
ADDED_LINES: dict[str, Any] = {"line_items": [{"sku": "LS-S", "quantity": 1, "merge": True}]}
LINE_CHANGES: dict[str, Any] = {"quantity": 1, "unit_price": "55.00", "metadata": {"gift_wrap": True}}
NEW_COMMENT: dict[str, Any] = {"body": "The parcel leaves on Monday.", "visibility": "customer"}
NEW_COPY: dict[str, Any] = {"status": "draft", "reprice": True}
