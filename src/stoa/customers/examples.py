"""Example requests about customers: the documentation shows them, and the tests send them."""

from typing import Any

HOME: dict[str, Any] = {
    "address1": "12 Larch Street",
    "city": "Portland",
    "province_code": "OR",
    "postal_code": "97205",
    "country_code": "US",
}
NEW_CUSTOMER: dict[str, Any] = {
    "email": "maya@ortizceramics.example",
    "phone": "+1 555 010 0123",
    "first_name": "Maya",
    "last_name": "Ortiz",
    "locale": "en-US",
    "accepts_marketing": True,
    "tags": ["wholesale"],
    "addresses": [{"label": "Home", **HOME}],
    "metadata": {"tier": "gold", "shared.loyalty_id": "L-2207"},
}
CUSTOMER_CHANGES: dict[str, Any] = {"company": "Ortiz & Daughters", "tags": ["wholesale", "ceramics"]}
NEW_ADDRESS: dict[str, Any] = {
    "label": "Workshop",
    "address1": "4 Kiln Yard",
    "city": "Astoria",
    "province_code": "OR",
    "postal_code": "97103",
    "country_code": "US",
    "is_default_shipping": True,
}
ADDRESS_CHANGES: dict[str, Any] = {"address2": "Unit 7", "is_default_billing": True}
METADATA_CHANGES: dict[str, Any] = {"tier": "platinum", "last_call": None, "shared.newsletter": True}
