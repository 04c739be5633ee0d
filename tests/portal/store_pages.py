"""Helpers for tests of store pages."""

import re
from typing import Any

from tests.support.shops import Shop

ADDRESS = {"first_name": "Ada", "address1": "1 Mill Lane", "city": "Ghent", "postal_code": "9000", "country_code": "BE"}


async def place_order(shop: Shop, **more: Any) -> dict[str, Any]:
    body = {
        "customer": {"email": "ada@example.com", "first_name": "Ada", "last_name": "Byron"},
        "line_items": [{"sku": "LS-S", "quantity": 1}],
        "shipping_address": ADDRESS,
        **more,
    }
    response = await shop.client.post("/orders", json=body)
    assert response.status_code == 201, response.text
    return response.json()["data"]


def rows(text: str) -> list[str]:
    """Return the link texts in the first column of a table."""
    return re.findall(
        r'<tr><td[^>]*>(?:<span class="pick"><input[^>]+>|<span class="pictured">(?:(?!<a ).)*)?<a href="[^"]+">([^<]+)</a>',
        text,
    )


def hidden(text: str) -> dict[str, str]:
    """The hidden fields of a page's forms, without their tokens."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text)
    return {name: value for name, value in found if name not in ("_token", "next")}
