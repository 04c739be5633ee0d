"""Erasing a customer's own records. The order of all steps, in every slice, is in `stoa.store_data.customer_erasure`."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, cast

import msgspec

from stoa.customers.contract import email_key
from stoa.customers.phones import e164
from stoa.db.documents import TOMBSTONE, fields_of, head_of
from stoa.db.query import Command, Executor, Query
from stoa.events.outbox import Cause

# What continues an address in text: letters with their marks, of the scripts that separate words by spaces, and digits.
_LETTER = r"[0-9a-z_\u00c0-\u0dff\u1e00-\u1fff]"
_BEFORE, _AFTER = rf"(?<!{_LETTER})(?<!{_LETTER}[.+'-])", rf"(?!{_LETTER}|-|\.{_LETTER})"
_ADDRESS = re.compile(r"(?!')[\w\u00c0-\u1fff!#$%&'*+/=?^`{}~.-]+@[\w\u00c0-\u1fff.-]*[\w\u00c0-\u1fff]")
_NUMBER = re.compile(r"[0-9](?:[ \t\u00a0\u2010-\u2015().\[\]/-]{0,3}[0-9])*")
_NOT_DIGITS, _PREFIX = re.compile(r"[^0-9]+"), re.compile(r"0{1,2}11|0*")  # dialed before a country code


class Person(msgspec.Struct, frozen=True):
    """The customer to erase, with its identifiers: a record may contain only one of them.

    They include former ones, unless another customer has them now: then they name that customer.
    """

    store_id: int
    customer_id: int
    emails: frozenset[str]  # in lower case
    phones: frozenset[str]  # E.164
    external_ids: frozenset[str]
    cause: Cause

    def is_named_in(self, value: str) -> bool:
        """Whether a value, such as a cell of a file, contains one of the email addresses or phone numbers.

        A value that is an email address as a whole is compared as such. Within other text, an address in any case counts
        unless letters continue it, as in `joann@example.com` or `ann@example.com.au`, and a number with its country code, in
        any notation, unless it has further digits.
        """
        text = value.strip().lower()
        if _ADDRESS.fullmatch(text):
            return text in self.emails
        return any(
            email in text and re.search(_BEFORE + re.escape(email) + _AFTER, text) for email in self.emails
        ) or any(
            digits.endswith(phone[-4:]) and e164("+" + _PREFIX.sub("", digits, count=1)) == phone
            for phone in self.phones
            for digits in _numbers_in(text)
        )


def _numbers_in(text: str) -> Iterable[str]:
    """The digits of each number in a text, whatever separates them; a plus sign begins another number."""
    return (_NOT_DIGITS.sub("", number) for number in _NUMBER.findall(text))


class LockedCustomer(msgspec.Struct):
    version: int
    head: str


# Waits for every order that has locked the customer; no new order can lock it afterwards.
LOCK = Query(
    LockedCustomer,
    "SELECT version, head FROM customers WHERE store_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE",
)


class PastEvent(msgspec.Struct):
    changes: str
    data: str


PAST_EVENTS = Query(
    PastEvent,
    "SELECT changes, data FROM events WHERE store_id = $1 AND resource_type = 'customer' AND resource_id = $2",
)


def _unless_taken(parameter: int, column: str) -> str:
    """SQL for an array of the identifiers in a parameter that no customer but $2 has now."""
    values = f"${parameter}::text[]"
    return f"""ARRAY(SELECT unnest({values}) EXCEPT SELECT {column} FROM customers
                       WHERE store_id = $1 AND {column} = ANY({values}) AND id <> $2 AND deleted_at IS NULL)"""


# A customer may take a former identifier during the erasure, so a statement that searches by them excludes them once more.
EMAILS, PHONES, EXTERNAL_IDS = _unless_taken(3, "email_key"), _unless_taken(4, "phone"), _unless_taken(5, "external_id")


class Identifiers(msgspec.Struct):
    emails: list[str]
    phones: list[str]
    external_ids: list[str]


NOT_TAKEN = Query(
    Identifiers,
    f"""SELECT {EMAILS} AS emails, {PHONES} AS phones, {EXTERNAL_IDS} AS external_ids
         FROM customers WHERE store_id = $1 AND id = $2""",
)
ERASE_EVENTS = Command(
    """UPDATE events SET changes = '{}', data = '{"id":' || resource_id || '}', app_views = NULL
        WHERE store_id = $1 AND resource_type = 'customer' AND resource_id = $2"""
)
# A replay returns the same status with nothing but the id.
ERASE_RESPONSES = Command(
    """UPDATE idempotency_keys SET body = ('{"data":{"id":' || subject_id::text || '},"meta":{}}')::bytea
        WHERE store_id = $1 AND subject_type = 'customer' AND subject_id = $2 AND length(body) > 0"""
)
DELETE_METADATA = Command("DELETE FROM customer_metadata WHERE store_id = $1 AND customer_id = $2")
ERASE_PROFILE = Command(
    """UPDATE customers
          SET external_id = NULL, email = NULL, email_key = NULL, phone = NULL, first_name = NULL, last_name = NULL,
              email_consent = NULL, sms_consent = NULL, status = 'erased', head = $3, shown = ',"metadata":{}', terms = '', deleted_at = greatest(updated_at, now()),
              updated_at = greatest(updated_at, now()), version = version + 1
        WHERE store_id = $1 AND id = $2"""
)
COUNT = Command("INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'customers', -1)")


# With the id, it identifies a customer for certain: a restored sequence gives ids again, and imports choose `created_at`.
INSERTED_AT = "coalesce(c.inserted_at, c.created_at)"


class ErasedCustomer(msgspec.Struct):
    version: int
    doc: str
    inserted_at: datetime


ERASED = Query(
    ErasedCustomer,
    f"""SELECT version, {TOMBSTONE} AS doc, {INSERTED_AT} AS inserted_at
         FROM customers c WHERE store_id = $1 AND id = $2""",
)


async def identify(db: Executor, store_id: int, customer_id: int, head: str, cause: Cause) -> Person:
    """A locked customer with the identifiers that its profile and its past events contain."""
    past_events = await PAST_EVENTS.all(db, store_id, customer_id)
    found: dict[str, set[str]] = {"email": set(), "phone": set(), "external_id": set()}
    for members in [fields_of(head), *_members_in(past_events, list(found))]:
        for name, values in found.items():
            if isinstance(value := members.get(name), str):
                values.add(value)
    emails = sorted(map(email_key, found["email"]))
    phones = sorted(number for phone in found["phone"] if (number := e164(phone)) is not None)
    own = await NOT_TAKEN.one(db, store_id, customer_id, emails, phones, sorted(found["external_id"]))
    return Person(
        store_id, customer_id, frozenset(own.emails), frozenset(own.phones), frozenset(own.external_ids), cause
    )


def _members_in(past_events: Iterable[PastEvent], names: list[str]) -> Iterable[dict[str, Any]]:
    for event in past_events:
        yield msgspec.json.decode(event.data)
        changes = cast("dict[str, Any]", msgspec.json.decode(event.changes))
        yield from ({name: value} for name in names for value in changes.get(name, []))


async def erase_records(db: Executor, person: Person) -> None:
    """Erase the customer's past events, stored responses and metadata."""
    for command in (ERASE_EVENTS, ERASE_RESPONSES, DELETE_METADATA):
        await command.run(db, person.store_id, person.customer_id)


async def erase_profile(db: Executor, person: Person) -> None:
    """Erase the profile; the row stays as a tombstone."""
    await ERASE_PROFILE.run(db, person.store_id, person.customer_id, head_of({"status": "erased"}))
    await COUNT.run(db, person.store_id)
