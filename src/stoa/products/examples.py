"""Example request bodies for the documentation; the tests send each of them."""

from typing import Any

NEW_SHIRT: dict[str, Any] = {
    "name": "Linen Shirt",
    "price": "59.00",
    "brand": "Orravale",
    "category": "Clothing/Shirts",
    "tags": ["linen", "summer"],
    "images": [{"url": "https://images.example.com/linen-shirt.jpg", "alt": "A linen shirt on a hanger"}],
    "options": [{"name": "Size", "values": ["S", "M"]}],
    "variants": [
        {"sku": "LINEN-S", "option_values": {"Size": "S"}, "stock": {"on_hand": 12}},
        {"sku": "LINEN-M", "option_values": {"Size": "M"}, "price": "61.00", "stock": {"on_hand": 4}},
    ],
    "metadata": {"material": "linen"},
}
SHIRT_CHANGES: dict[str, Any] = {"price": "55.00", "compare_at_price": "59.00", "metadata": {"season": "summer"}}
NEW_VARIANT: dict[str, Any] = {"sku": "LINEN-L", "option_values": {"Size": "L"}, "stock": {"on_hand": 3}}
VARIANT_CHANGES: dict[str, Any] = {"price": "57.50", "low_stock_threshold": 2}
PRODUCT_BATCH: dict[str, Any] = {
    "mode": "independent",
    "items": [
        {"op": "create", "data": {"name": "Café Mug", "price": "12.50", "sku": "MUG-1", "stock": {"on_hand": 30}}},
        {"op": "upsert", "match_by": "sku", "sku": "BOWL-1", "data": {"name": "Soup Bowl", "price": "18.00"}},
    ],
}
VARIANT_BATCH: dict[str, Any] = {
    "mode": "independent",
    "items": [{"sku": "LINEN-M", "data": {"price": "60.00"}}],
}
