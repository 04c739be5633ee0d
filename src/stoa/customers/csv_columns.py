"""The columns of a CSV file of customers, which imports read and streams write."""

from typing import Any

from stoa.rest import csv_rows


def _row(customer: dict[str, Any]) -> dict[str, Any]:
    """A customer with the address that a row of a file changes: the default shipping address."""
    addresses: list[dict[str, Any]] = customer.get("addresses") or []
    return {**customer, "address": next((each for each in addresses if each["is_default_shipping"]), None)}


COLUMNS = csv_rows.Columns(
    resource={
        "id": csv_rows.integer,
        "created_at": csv_rows.text,
        **dict.fromkeys(
            "email phone external_id first_name last_name company locale status note".split(), csv_rows.text
        ),
        "accepts_marketing": csv_rows.flag,
        "tags": csv_rows.words,
        "metadata.": csv_rows.text,
        **dict.fromkeys(
            "address.label address.first_name address.last_name address.company address.phone address.address1 "
            "address.address2 address.city address.district address.province address.province_code address.postal_code "
            "address.country_code".split(),
            csv_rows.text,
        ),
        "address.latitude": csv_rows.number,
        "address.longitude": csv_rows.number,
        **dict.fromkeys(
            "consents.email.state consents.email.source consents.email.updated_at "
            "consents.sms.state consents.sms.source consents.sms.updated_at".split(),
            csv_rows.text,
        ),
    },
    shown=_row,
    drawn_from={"address": "addresses"},
)
