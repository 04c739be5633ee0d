"""The public contract of customers: resources, list filters and errors."""

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from stoa import terms
from stoa.customers.csv_columns import COLUMNS
from stoa.customers.phones import e164
from stoa.rest.checks import Money, Time, decimal_within, worded
from stoa.rest.fields import CreatedAt, UpdatedAt, Version
from stoa.rest.filters import (
    Choices,
    Entries,
    Entry,
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

# Fields that customers, their addresses and the addresses of orders have in common.
EMAIL = Meta(
    description="The email address, unique among the customers of the store, ignoring case; null if none is set."
)
FIRST_NAME = Meta(description="The first name of the person; null if none is set.")
LAST_NAME = Meta(description="The last name of the person; null if none is set.")
COMPANY = Meta(description="The name of the company; null if none is set.")
LOCALE = Meta(description="The language of the customer as a language tag, such as `en-US`; null if unknown.")
ADDRESS2 = Meta(description="The second line of the address, such as floor or apartment; null if none is set.")
CITY = Meta(description="The city or town; null if none is set.")
DISTRICT = Meta(description="The district or neighborhood; null if none is set.")
PROVINCE = Meta(description="The name of the province, state or region; null if none is set.")
PROVINCE_CODE = Meta(description="The code of the province, such as `CA`; null if none is set. Stoa does not check it.")
POSTAL_CODE = Meta(description="The postal code; null if none is set. Stoa does not check it.")
LATITUDE = Meta(description="The latitude in degrees, from -90 to 90; null if unknown.")
LONGITUDE = Meta(description="The longitude in degrees, from -180 to 180; null if unknown.")

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

    id: Annotated[int, Meta(description="The id of the address, assigned by Stoa. It never changes.")]
    customer_id: Annotated[int, Meta(description="The id of the customer.")]
    label: Annotated[str | None, Meta(description="A name for the address, such as `Home`; null if none is set.")]
    first_name: Annotated[str | None, FIRST_NAME]
    last_name: Annotated[str | None, LAST_NAME]
    company: Annotated[str | None, COMPANY]
    phone: Annotated[
        str | None, Meta(description="The phone number in E.164 form, such as +15550100123; null if none is set.")
    ]
    address1: Annotated[str, Meta(description="The first line: street and house number.")]
    address2: Annotated[str | None, ADDRESS2]
    city: Annotated[str | None, CITY]
    district: Annotated[str | None, DISTRICT]
    province: Annotated[str | None, PROVINCE]
    province_code: Annotated[str | None, PROVINCE_CODE]
    postal_code: Annotated[str | None, POSTAL_CODE]
    country_code: Annotated[str, Meta(description="The two-letter country code of ISO 3166-1, in upper case.")]
    latitude: Annotated[float | None, LATITUDE]
    longitude: Annotated[float | None, LONGITUDE]
    is_default_shipping: Annotated[
        bool,
        Meta(
            description="Whether this is the default shipping address. The first address becomes it; setting another one to true replaces it."
        ),
    ]
    is_default_billing: Annotated[
        bool,
        Meta(
            description="Whether this is the default billing address. The first address becomes it; setting another one to true replaces it."
        ),
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt
    version: Version


class Consent(msgspec.Struct):
    """The marketing consent of a person on one channel."""

    state: State
    source: Source | None
    updated_at: Annotated[
        Time | None, Meta(description="When the person decided, in UTC. Null if the person was never asked.")
    ]


class Consents(msgspec.Struct):
    """The marketing consents of a person, by channel."""

    email: Annotated[Consent, Meta(description="The consent to marketing by email.")]
    sms: Annotated[Consent, Meta(description="The consent to marketing by text message.")]


class Customer(msgspec.Struct):
    """A person or a company that buys from the store."""

    id: Annotated[int, Meta(description="The id of the customer, assigned by Stoa. It never changes.")]
    external_id: Annotated[
        str | None,
        Meta(description="The id of the customer in your own system, unique in the store; null if none is set."),
    ]
    email: Annotated[str | None, EMAIL]
    phone: Annotated[
        str | None,
        Meta(
            description="The phone number in E.164 form, such as +15550100123, unique among the customers of the store; null if none is set."
        ),
    ]
    first_name: Annotated[str | None, FIRST_NAME]
    last_name: Annotated[str | None, LAST_NAME]
    company: Annotated[str | None, COMPANY]
    locale: Annotated[str | None, LOCALE]
    status: Annotated[
        Literal["active", "disabled", "erased"],
        Meta(
            description="`active` by default. Stoa stores `disabled` for your own use and does not enforce it; `erased` is used only in filters."
        ),
    ]
    accepts_marketing: Annotated[
        bool, Meta(description="Whether the person agreed to marketing emails: `consents.email.state` is `subscribed`.")
    ]
    consents: Annotated[Consents, Meta(description="The marketing consents of the person, by channel.")]
    tags: Annotated[
        list[str],
        Meta(
            description="Words to group customers by, up to 250; lists filter by one. An update replaces the whole list."
        ),
    ]
    note: Annotated[
        str | None, Meta(description="A note about the customer, up to 5,000 characters; null if none is set.")
    ]
    addresses: Annotated[
        list[Address],
        Meta(description=f"All addresses, oldest first, up to {MOST_ADDRESSES}. They have their own endpoints."),
    ]
    default_shipping_address_id: Annotated[
        int | None, Meta(description="The id of the default shipping address; null if there are no addresses.")
    ]
    default_billing_address_id: Annotated[
        int | None, Meta(description="The id of the default billing address; null if there are no addresses.")
    ]
    metadata: Annotated[
        dict[str, Any],
        Meta(
            description=f"Up to {MOST_KEYS} values of your app, by key, and up to {MOST_KEYS} with keys that start with `shared.`, which all apps see."
        ),
    ]
    orders_count: Annotated[int, Meta(description="The number of orders, without drafts and cancelled ones.")]
    total_spent: Annotated[
        Money,
        Meta(description="`amount_paid` minus `amount_refunded` of all orders, without drafts and cancelled ones."),
    ]
    last_order_at: Annotated[
        Time | None,
        Meta(
            description="The latest `placed_at` of the orders, without drafts and cancelled ones; null if there are none."
        ),
    ]
    created_at: CreatedAt
    updated_at: Annotated[
        Time, Meta(description="The time of the last change that all apps see, in UTC. Orders change it too.")
    ]
    version: Annotated[
        int,
        Meta(
            description="Increases with each change that all apps see, from 1. Send it as `If-Match` to change only the version that you read."
        ),
    ]
    deleted_at: Annotated[Time | None, Meta(description="The time of the erasure; null while the customer exists.")]


class WrittenBy(msgspec.Struct):
    """The app that wrote the entry; null if an operator wrote it."""

    app_id: Annotated[int | None, Meta(description="The id of the app; null if an operator wrote the value.")]


class MetadataEntry(msgspec.Struct):
    """One key of a customer's metadata, and the app that wrote it last."""

    key: Annotated[
        str, Meta(description="The key. One that starts with `shared.` belongs to all apps, any other to your app.")
    ]
    value: Annotated[
        str | int | float | bool, Meta(description="The value, at most 1,000 characters if it is a string.")
    ]
    updated_at: Annotated[Time, Meta(description="The time at which the value was written last, in UTC.")]
    updated_by: Annotated[WrittenBy, Meta(description="The app that wrote the value last.")]


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
    """`metadata[key]=value`. The owner of a key depends on the caller, so the handler resolves the entries."""

    def read_entries(self, entries: Sequence[Entry], store: StoreContext) -> dict[str, Any]:
        self.check_lists(entries)
        return {"metadata": list(entries)}


class ConsentEntries(Entries, frozen=True, kw_only=True):
    """`consent[email]=subscribed`: the state of a channel. The handler resolves the pairs."""

    def read(self, text: str, store: StoreContext) -> str:
        raise InvalidValue("requires a channel in brackets, as in consent[email]=subscribed")

    def read_entries(self, entries: Sequence[Entry], store: StoreContext) -> dict[str, Any]:
        pairs = {each.key: each.text for each in entries}
        if unknown := sorted(pairs.keys() - set(get_args(Channel))):
            raise InvalidValue(f"has no channel {printable(', '.join(unknown))}; use {', '.join(get_args(Channel))}")
        for state in pairs.values():
            if state not in get_args(ConsentState):
                raise InvalidValue(f'must be one of {", ".join(get_args(ConsentState))}, not "{printable(state)}"')
        return {"consent": msgspec.json.encode(dict(sorted(pairs.items()))).decode()}

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
    columns=COLUMNS,
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
        "metadata": OwnEntries(
            description="Customers with this metadata value, as in `metadata[tier]=gold`, or for a key with an ordered type in this range, as in `metadata[visits][gte]=3`.",
            resource="customer",
        ),
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
