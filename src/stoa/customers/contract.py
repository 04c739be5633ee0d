"""The public contract of customers: resources, list filters and errors."""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from stoa import terms
from stoa.customers.phones import e164
from stoa.rest.checks import Money, Time, decimal_within, worded
from stoa.rest.filters import (
    Choices,
    Entries,
    Flag,
    Ids,
    InvalidValue,
    Moment,
    MomentRange,
    MoneyRange,
    Number,
    StoreContext,
    Term,
    Text,
    Words,
)
from stoa.rest.lists import ListOf
from stoa.rest.problems import Refusal, printable

MOST_ADDRESSES, MOST_KEYS = 100, 100
SHARED = "shared."

# Regex engines differ in what is whitespace; with control characters and the byte order mark added, they agree.
_BLANK = r"\s\u0000-\u001f\u007f-\u009f\ufeff"
Email = Annotated[
    str,
    Meta(min_length=3, max_length=254, pattern=rf"^[^@{_BLANK}]+@[^@.{_BLANK}]+(\.[^@.{_BLANK}]+)+$"),
    worded("must be an email address, such as maya@example.com"),
]
Phone = Annotated[
    str, Meta(min_length=1, max_length=40, description="A phone number with its country code, such as +1 555 0100.")
]
Country = Annotated[
    str,
    Meta(
        extra_json_schema={"maxLength": 2},
        pattern=r"^[A-Za-z]{2}$",
        description="A two-letter country code of ISO 3166-1.",
    ),
    worded("must be a two-letter country code of ISO 3166-1, such as GR"),
]
Latitude = Annotated[Decimal, decimal_within(-90, 90)]
Longitude = Annotated[Decimal, decimal_within(-180, 180)]


Channel = Literal["email", "sms"]
ConsentState = Literal["subscribed", "unsubscribed", "pending", "not_subscribed"]
_STATE = (
    "`subscribed`: the person agreed. `unsubscribed`: the person withdrew the consent or refused. `pending`: asked, for "
    "example by double opt-in, and not confirmed. `not_subscribed`: never asked; the default."
)
State = Annotated[ConsentState, Meta(description=_STATE)]
_SOURCE = "Where the person decided, such as `checkout` or `newsletter form`. Null if it is unknown."
Source = Annotated[str, Meta(max_length=255, description=_SOURCE)]


class Address(msgspec.Struct):
    """An address of a customer. Its id never changes, and orders keep their own copy."""

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


class Consent(msgspec.Struct):
    """The marketing consent of a person on one channel."""

    state: State
    source: Source | None
    updated_at: Annotated[
        Time | None, Meta(description="When the person decided, in UTC. Null if the person was never asked.")
    ]


class Consents(msgspec.Struct):
    """The marketing consents of a person, by channel."""

    email: Consent
    sms: Consent


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
    accepts_marketing: Annotated[
        bool, Meta(description="Whether the person agreed to marketing emails: `consents.email.state` is `subscribed`.")
    ]
    consents: Annotated[Consents, Meta(description="The marketing consents of the person, by channel.")]
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
    """The app that wrote the entry; null if an operator wrote it."""

    app_id: int | None


class MetadataEntry(msgspec.Struct):
    """One key of a customer's metadata, and the app that wrote it last."""

    key: str
    value: str | int | float | bool
    updated_at: Time
    updated_by: WrittenBy


class CustomerExists(Refusal):
    """Another customer of the store has this email address or phone number. `existing_id` names that customer."""

    status, code, title = 409, "customer_exists", "The customer already exists"


# --- the list --------------------------------------------------------------------------------------------------------


class NumberRange(Number, frozen=True, kw_only=True):
    """A whole number, or a range by operators."""

    operators = ("gte", "gt", "lte", "lt")


class EmailText(Text, frozen=True, kw_only=True):
    """An email address, ignoring case."""

    def read(self, text: str, store: StoreContext) -> str:
        return email_key(super().read(text, store))


class PhoneText(Text, frozen=True, kw_only=True):
    """A phone number in any notation with a country code."""

    def read(self, text: str, store: StoreContext) -> str:
        # An unescaped plus sign arrives as a space.
        plain = super().read(text, store).strip()
        number = e164(plain if plain.startswith(("+", "00")) else f"+{plain}")
        if number is None:
            raise InvalidValue("must be a phone number with its country code, such as +15550100123")
        return number


class NameWords(Words, frozen=True, kw_only=True):
    """Words that must be the start of words in the name."""

    def read(self, text: str, store: StoreContext) -> str:
        if len(text) > 200 or not (query := terms.beginning(store.store_id, text, "name")):
            raise InvalidValue("must contain a word and have at most 200 characters")
        return query


_PHONE_LIKE = re.compile(r"[+(]?[\d\s().+-]{3,}\Z")


class CustomerWords(Words, frozen=True, kw_only=True):
    """Text search. A phone number is one word, whatever separates its digits."""

    def read(self, text: str, store: StoreContext) -> str:
        stripped = text.strip()
        return super().read(re.sub(r"\D", "", stripped) if _PHONE_LIKE.match(stripped) else text, store)


class OwnEntries(Entries, frozen=True, kw_only=True):
    """`metadata[key]=value`. The owner of a key depends on the caller, so the handler resolves the pairs."""

    def read_entries(self, entries: Mapping[str, str], store: StoreContext) -> str:
        return msgspec.json.encode(dict(sorted(entries.items()))).decode()


class ConsentEntries(Entries, frozen=True, kw_only=True):
    """`consent[email]=subscribed`: the state of a channel. The handler resolves the pairs."""

    def read(self, text: str, store: StoreContext) -> str:
        raise InvalidValue("requires a channel in brackets, as in consent[email]=subscribed")

    def read_entries(self, entries: Mapping[str, str], store: StoreContext) -> str:
        if unknown := sorted(entries.keys() - set(get_args(Channel))):
            raise InvalidValue(f"has no channel {printable(', '.join(unknown))}; use {', '.join(get_args(Channel))}")
        for state in entries.values():
            if state not in get_args(ConsentState):
                raise InvalidValue(f'must be one of {", ".join(get_args(ConsentState))}, not "{printable(state)}"')
        return msgspec.json.encode(dict(sorted(entries.items()))).decode()

    def schema(self) -> dict[str, Any]:
        state = {"type": "string", "enum": list(get_args(ConsentState))}
        return {
            "type": "object",
            "properties": dict.fromkeys(get_args(Channel), state),
            "minProperties": 1,
            "additionalProperties": False,
        }


def email_key(email: str) -> str:
    """An email address in the form in which it is compared."""
    return email.lower()


CUSTOMERS = ListOf(
    filters={
        "ids": Ids(description="Customers with these ids."),
        "email": EmailText(description="The customer with this email address, ignoring case.", longest=254),
        "phone": PhoneText(description="The customer with this phone number.", longest=40),
        "external_id": Text(description="The customer with this external id."),
        "name": NameWords(description="Each word must be the start of a word in the first name, last name or company."),
        "tag": Term(kind="tag", description="Customers with this tag, ignoring case."),
        "status": Choices(values=("active", "disabled", "erased"), description="One or more of these statuses."),
        "accepts_marketing": Flag(description="Whether the customer agreed to marketing emails."),
        "consent": ConsentEntries(
            description="Customers with this state of consent on a channel, as in `consent[email]=subscribed`."
        ),
        "orders_count": NumberRange(description="The number of orders, or a range."),
        "total_spent": MoneyRange(description="The total amount spent, or a range."),
        "q": CustomerWords(
            description="Text search. Each word must be the start of a word in the name, company, email address, phone number or tags."
        ),
        "metadata": OwnEntries(description="Customers with this metadata value, as in `metadata[tier]=gold`."),
        "created_at": MomentRange(description="The time of creation, or a time range."),
        "updated_since": Moment(description="Customers changed at or after this time, including metadata and orders."),
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
