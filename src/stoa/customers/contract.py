"""Customers as callers see them: the resources, how the list is filtered, and what is refused."""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stoa import terms
from stoa.customers.phones import e164
from stoa.rest.checks import Money, Time, decimal_within, worded
from stoa.rest.filters import (
    Choices,
    Entries,
    Ids,
    InvalidValue,
    Moment,
    MomentRange,
    MoneyRange,
    Number,
    Reader,
    Term,
    Text,
    Words,
)
from stoa.rest.lists import ListOf
from stoa.rest.problems import Refusal

MOST_ADDRESSES, MOST_KEYS = 100, 100
SHARED = "shared."

# Languages differ in what is a blank; with control characters and the byte order mark added, they agree.
_BLANK = r"\s\u0000-\u001f\u007f-\u009f\ufeff"
Email = Annotated[
    str,
    Meta(min_length=3, max_length=254, pattern=rf"^[^@{_BLANK}]+@[^@.{_BLANK}]+(\.[^@.{_BLANK}]+)+$"),
    worded("must be an e-mail address, such as maya@example.com"),
]
Phone = Annotated[
    str, Meta(min_length=1, max_length=40, description="A number with its country code, as in +1 555 0100.")
]
Country = Annotated[
    str,
    Meta(extra_json_schema={"maxLength": 2}, pattern=r"^[A-Za-z]{2}$", description="ISO 3166-1, two letters."),
    worded("must be a country's two letters of ISO 3166-1, such as GR"),
]
Latitude = Annotated[Decimal, decimal_within(-90, 90)]
Longitude = Annotated[Decimal, decimal_within(-180, 180)]


class Address(msgspec.Struct):
    """Where a customer can be reached; its id is stable, and orders keep a copy of their own."""

    id: int
    customer_id: int
    label: str | None
    first_name: str | None
    last_name: str | None
    company: str | None
    phone: str | None
    address1: str
    address2: str | None
    city: str | None
    district: str | None
    province: str | None
    province_code: str | None
    postal_code: str | None
    country_code: str
    latitude: float | None
    longitude: float | None
    is_default_shipping: bool
    is_default_billing: bool
    created_at: Time
    updated_at: Time
    version: int


class Customer(msgspec.Struct):
    """A person or a company that buys from the store."""

    id: int
    external_id: str | None
    email: str | None
    phone: str | None
    first_name: str | None
    last_name: str | None
    company: str | None
    locale: str | None
    status: Literal["active", "disabled", "erased"]
    accepts_marketing: bool
    tags: list[str]
    note: str | None
    addresses: list[Address]
    default_shipping_address_id: int | None
    default_billing_address_id: int | None
    metadata: dict[str, Any]
    orders_count: int
    total_spent: Money
    last_order_at: Time | None
    created_at: Time
    updated_at: Time
    version: int
    deleted_at: Time | None


class WrittenBy(msgspec.Struct):
    """The app that wrote; null when an operator did."""

    app_id: int | None


class MetadataEntry(msgspec.Struct):
    """One key of a customer's metadata, with who wrote it last."""

    key: str
    value: str | int | float | bool
    updated_at: Time
    updated_by: WrittenBy


class CustomerExists(Refusal):
    """Another customer of the store has this e-mail address or phone number; `existing_id` names that customer."""

    status, code, title = 409, "customer_exists", "The customer exists already"


# --- the list --------------------------------------------------------------------------------------------------------


class NumberRange(Number, frozen=True, kw_only=True):
    """A whole number, or a range of them by operators."""

    operators = ("gte", "gt", "lte", "lt")


class EmailText(Text, frozen=True, kw_only=True):
    """An e-mail address, whatever its case."""

    def read(self, text: str, reader: Reader) -> str:
        return email_key(super().read(text, reader))


class PhoneText(Text, frozen=True, kw_only=True):
    """A phone number in any spelling that names its country."""

    def read(self, text: str, reader: Reader) -> str:
        # An unescaped plus sign arrives as a space.
        plain = super().read(text, reader).strip()
        number = e164(plain if plain.startswith(("+", "00")) else f"+{plain}")
        if number is None:
            raise InvalidValue("must be a number with its country code, as in +15550100123")
        return number


class NameWords(Words, frozen=True, kw_only=True):
    """Words that must begin words of the name."""

    def read(self, text: str, reader: Reader) -> str:
        if len(text) > 200 or not (query := terms.beginning(reader.store_id, text, "name")):
            raise InvalidValue("must hold a word and at most 200 characters")
        return query


_DIALLED = re.compile(r"[+(]?[\d\s().+-]{3,}\Z")


class CustomerWords(Words, frozen=True, kw_only=True):
    """Text search; what looks like a phone number is one word, however it is parted."""

    def read(self, text: str, reader: Reader) -> str:
        dialled = text.strip()
        return super().read(re.sub(r"\D", "", dialled) if _DIALLED.match(dialled) else text, reader)


class OwnEntries(Entries, frozen=True, kw_only=True):
    """`metadata[key]=value`; whose metadata it is depends on the caller, so the pairs are kept for the handler."""

    def read_entries(self, entries: Mapping[str, str], reader: Reader) -> str:
        return msgspec.json.encode(dict(sorted(entries.items()))).decode()


def email_key(email: str) -> str:
    """An e-mail address as it is compared."""
    return email.lower()


CUSTOMERS = ListOf(
    filters={
        "ids": Ids(description="Customers with these ids."),
        "email": EmailText(description="The customer with this e-mail address, whatever its case.", longest=254),
        "phone": PhoneText(description="The customer with this phone number.", longest=40),
        "external_id": Text(description="The customer with your own id."),
        "name": NameWords(description="Each word must begin a word of first name, last name or company."),
        "tag": Term(kind="tag", description="Customers that carry this tag."),
        "status": Choices(values=("active", "disabled", "erased"), description="One or more of these statuses."),
        "orders_count": NumberRange(description="How many orders, or a range of that."),
        "total_spent": MoneyRange(description="How much was spent, or a range of that."),
        "q": CustomerWords(description="Each word must begin a word of name, company, e-mail address, phone or tags."),
        "metadata": OwnEntries(description="Metadata that must be equal, as in `metadata[tier]=gold`."),
        "created_at": MomentRange(description="When it was created, or a range of that."),
        "updated_since": Moment(description="Changed at or after this time, metadata and orders included."),
    },
    sorts={
        "id": int,
        "last_name": str,
        "orders_count": int,
        "total_spent": int,
        "last_order_at": datetime,
        "created_at": datetime,
        "updated_at": datetime,
    },
    deletable=True,
)
