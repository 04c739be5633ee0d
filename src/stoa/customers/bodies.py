"""The request bodies of customers, with limits that guarantee that an accepted body can be stored."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.customers.contract import (
    COMPANY,
    EMAIL,
    FIRST_NAME,
    LAST_NAME,
    LOCALE,
    MOST_ADDRESSES,
    Country,
    Email,
    Latitude,
    Longitude,
    Phone,
    Source,
    State,
)
from stoa.rest.checks import Time, worded
from stoa.rest.fields import ExternalId, MetadataKey, MetadataValue, Short

Status = Literal["active", "disabled"]
Locale = Annotated[
    str,
    Meta(max_length=35, pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$"),
    worded("must be a language tag, such as en or en-US"),
]
Tag = Annotated[str, Meta(min_length=1, max_length=64)]
Tags = Annotated[list[Tag], Meta(max_length=250)]
Note = Annotated[str, Meta(max_length=5000)]
MetadataChanges = dict[MetadataKey, MetadataValue | None]


class ConsentChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A consent to record. Omitted fields stay unchanged."""

    state: State | UnsetType = UNSET
    source: Source | UnsetType | None = UNSET
    updated_at: Annotated[
        Time | UnsetType | None, Meta(description="When the person decided. The default is the time of the change.")
    ] = UNSET


class ConsentsChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Consents to record, by channel. An omitted channel stays unchanged; null resets it to `not_subscribed`."""

    email: ConsentChanges | UnsetType | None = UNSET
    sms: ConsentChanges | UnsetType | None = UNSET


AcceptsMarketing = Annotated[
    bool,
    Meta(
        description="The email consent in short: a new value sets `consents.email.state` to `subscribed` or `unsubscribed`."
    ),
]


class NewAddress(msgspec.Struct, forbid_unknown_fields=True):
    """An address to create."""

    address1: Annotated[str, Meta(min_length=1, max_length=255)]
    country_code: Country
    label: Annotated[str, Meta(max_length=64)] | None = None
    first_name: Short | None = None
    last_name: Short | None = None
    company: Short | None = None
    phone: Phone | None = None
    address2: Short | None = None
    city: Short | None = None
    district: Short | None = None
    province: Short | None = None
    province_code: Annotated[str, Meta(max_length=10)] | None = None
    postal_code: Annotated[str, Meta(max_length=20)] | None = None
    latitude: Latitude | None = None
    longitude: Longitude | None = None
    is_default_shipping: bool = False
    is_default_billing: bool = False


class AddressChanges(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch of an address. Omitted fields stay unchanged; null clears a field."""

    address1: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    country_code: Country | UnsetType = UNSET
    label: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    first_name: Short | UnsetType | None = UNSET
    last_name: Short | UnsetType | None = UNSET
    company: Short | UnsetType | None = UNSET
    phone: Phone | UnsetType | None = UNSET
    address2: Short | UnsetType | None = UNSET
    city: Short | UnsetType | None = UNSET
    district: Short | UnsetType | None = UNSET
    province: Short | UnsetType | None = UNSET
    province_code: Annotated[str, Meta(max_length=10)] | UnsetType | None = UNSET
    postal_code: Annotated[str, Meta(max_length=20)] | UnsetType | None = UNSET
    latitude: Latitude | UnsetType | None = UNSET
    longitude: Longitude | UnsetType | None = UNSET
    is_default_shipping: bool | UnsetType = UNSET
    is_default_billing: bool | UnsetType = UNSET


class Profile(msgspec.Struct, forbid_unknown_fields=True):
    """The profile of a customer. `email` or `phone` is required."""

    email: Annotated[Email | None, EMAIL] = None
    phone: Phone | None = None
    first_name: Annotated[Short | None, FIRST_NAME] = None
    last_name: Annotated[Short | None, LAST_NAME] = None
    company: Annotated[Short | None, COMPANY] = None
    locale: Annotated[Locale | None, LOCALE] = None
    accepts_marketing: AcceptsMarketing | UnsetType = UNSET


class NewCustomer(Profile, forbid_unknown_fields=True):
    """A customer to create, with addresses and metadata. `email` or `phone` is required."""

    external_id: ExternalId | None = None
    status: Status = "active"
    consents: ConsentsChanges | None = None
    tags: Tags = []
    note: Note | None = None
    addresses: Annotated[list[NewAddress], Meta(extra_json_schema={"maxItems": MOST_ADDRESSES})] = []
    metadata: dict[MetadataKey, MetadataValue] = {}


# The operations for fields that a merge patch of the customer cannot change.
CUSTOMER_ELSEWHERE: dict[str, str] = dict.fromkeys(
    ("addresses", "default_shipping_address_id", "default_billing_address_id"),
    "PATCH /customers/{customer_id}/addresses/{address_id}",
)


class CustomerChanges(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch of a customer. Omitted fields stay unchanged; null clears a field. Addresses have their own endpoints."""

    external_id: ExternalId | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    phone: Phone | UnsetType | None = UNSET
    first_name: Short | UnsetType | None = UNSET
    last_name: Short | UnsetType | None = UNSET
    company: Short | UnsetType | None = UNSET
    locale: Locale | UnsetType | None = UNSET
    status: Status | UnsetType = UNSET
    accepts_marketing: AcceptsMarketing | UnsetType = UNSET
    consents: ConsentsChanges | UnsetType | None = UNSET
    tags: Tags | UnsetType | None = UNSET
    note: Note | UnsetType | None = UNSET
    metadata: MetadataChanges | UnsetType | None = UNSET
