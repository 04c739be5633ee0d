"""The rules by which customers change, without a database: profile, addresses with their defaults, and metadata."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET

from stoa.customers.bodies import AddressChanges, CustomerChanges, NewAddress, NewCustomer, Profile
from stoa.customers.consents import accepts_marketing, changed_consents
from stoa.customers.contract import MOST_ADDRESSES, MOST_KEYS
from stoa.customers.documents import ADDRESS_DEFAULTS, CUSTOMER_DEFAULTS, Metadata
from stoa.customers.phones import e164
from stoa.customers.working_copy import CustomerCopy
from stoa.db.query import json_of
from stoa.rest.metadata import NO_DEFINITIONS, Definitions
from stoa.rest.metadata_types import SHARED
from stoa.rest.patch import merge
from stoa.rest.problems import Fault, ValidationFailed, counted, printable

_FLAGS = ("is_default_shipping", "is_default_billing")
_MAINTAINED = ("id", "customer_id", "created_at", "updated_at", "version")
COUNTRIES = frozenset(
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC "
    "CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD "
    "GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH "
    "KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW "
    "MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC "
    "SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY "
    "UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW".split()
)


def new_customer(
    new: NewCustomer, metadata: Mapping[str, Any], app_id: int | None, definitions: Definitions = NO_DEFINITIONS
) -> CustomerCopy:
    """A new customer. `metadata` is the undecoded request member, so that its numbers keep their digits."""
    consents, wrong = changed_consents(None, new.consents or UNSET, new.accepts_marketing)
    faults = [*profile_faults(new), *wrong]
    fields = {**CUSTOMER_DEFAULTS, **_plain(new)}
    del fields["metadata"]
    fields |= {"accepts_marketing": accepts_marketing(consents), "consents": consents}
    fields["phone"] = e164(new.phone) if new.phone else None
    fields["tags"] = _once(new.tags)
    fields["addresses"] = []
    if len(new.addresses) > MOST_ADDRESSES:
        faults.append(_address_limit("/addresses"))
    else:
        for index, each in enumerate(new.addresses):
            faults += address_faults(_plain(each), f"/addresses/{index}")
        faults += _flag_faults(new.addresses)
    stored, wrong = merged({}, metadata, app_id, "/metadata")
    refuse([*faults, *wrong, *definitions.faults_of_new("customer", metadata)])
    customer = CustomerCopy(None, fields, stored)
    for each in new.addresses:
        customer = add_address(customer, each)
    return customer


def change_customer(
    customer: CustomerCopy,
    body: CustomerChanges,
    patch: Mapping[str, Any],
    app_id: int | None,
    definitions: Definitions = NO_DEFINITIONS,
) -> CustomerCopy:
    """The customer with a merge patch applied."""
    given = {name: value for name, value in patch.items() if name not in ("metadata", "accepts_marketing", "consents")}
    after = {**CUSTOMER_DEFAULTS, **merge(customer.fields, given)}
    after["tags"] = _once(after["tags"])
    consents, faults = changed_consents(customer.fields["consents"], body.consents, body.accepts_marketing)
    after |= {"accepts_marketing": accepts_marketing(consents), "consents": consents}
    if isinstance(body.phone, str):
        after["phone"] = e164(body.phone)
        faults += _phone_faults(body.phone, "/phone")
    if after["email"] is None and after["phone"] is None and not faults:
        faults.append(Fault("/email", "required", "is required unless phone is given"))
    sent: Mapping[str, Any] | None = patch.get("metadata", {})
    entries = sent if sent is not None else dict.fromkeys(_visible(customer.metadata, app_id))
    metadata, wrong = merged(customer.metadata, entries, app_id, "/metadata")
    refuse([*faults, *wrong, *definitions.faults_of_changes("customer", sent)])
    return msgspec.structs.replace(customer, fields=after, metadata=metadata)


def profile_faults(profile: Profile, at: str = "") -> list[Fault]:
    """The faults of a profile beyond its types."""
    if profile.email is None and profile.phone is None:
        return [Fault(f"{at}/email", "required", "is required unless phone is given")]
    return _phone_faults(profile.phone, f"{at}/phone")


def _once(tags: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(tags))


# --- addresses -------------------------------------------------------------------------------------------------------


def add_address(customer: CustomerCopy, new: NewAddress) -> CustomerCopy:
    """Append an address. The first address becomes the default for both purposes, and so does one that asks for it."""
    addresses = customer.fields["addresses"]
    if len(addresses) >= MOST_ADDRESSES:
        raise ValidationFailed(f"A customer has at most {MOST_ADDRESSES} addresses.", faults=[_address_limit("")])
    sent = _plain(new)
    refuse(address_faults(sent, ""))
    added = {**ADDRESS_DEFAULTS, **_normalized(sent), "customer_id": customer.id}
    wanted = {flag: bool(added[flag] or not addresses) for flag in _FLAGS}
    return _with_addresses(customer, [*addresses, added], len(addresses), wanted)


def change_address(
    customer: CustomerCopy, address: Mapping[str, Any], body: AddressChanges, patch: Mapping[str, Any]
) -> CustomerCopy:
    """The customer with a merge patch applied to one address."""
    addresses: list[dict[str, Any]] = customer.fields["addresses"]
    index = next(n for n, each in enumerate(addresses) if each is address)
    given = {name: value for name, value in patch.items() if name not in _FLAGS}
    after = {**ADDRESS_DEFAULTS, **_normalized(merge(address, given))}
    faults = address_faults({**after, "phone": patch.get("phone")}, "")
    wanted: dict[str, bool] = {}
    for flag in _FLAGS:
        stated = getattr(body, flag)
        if stated is False and address[flag]:
            faults.append(Fault(f"/{flag}", "invalid_format", "cannot be unset; make another address the default"))
        wanted[flag] = stated is True
    refuse(faults)
    changed = [after if n == index else each for n, each in enumerate(addresses)]
    return _with_addresses(customer, changed, index, wanted)


def remove_address(customer: CustomerCopy, address: Mapping[str, Any]) -> CustomerCopy:
    """Remove an address. If it was a default, the oldest remaining address becomes the default."""
    left = [each for each in customer.fields["addresses"] if each is not address]
    return _with_addresses(customer, left, 0, {flag: address[flag] for flag in _FLAGS})


def _with_addresses(
    customer: CustomerCopy, addresses: list[dict[str, Any]], index: int, wanted: Mapping[str, bool]
) -> CustomerCopy:
    """The customer with these addresses. The one at `index` becomes the wanted default; changed ones get a new version."""
    before = {each["id"]: each for each in (customer.before or {}).get("addresses", [])}
    settled: list[dict[str, Any]] = []
    for number, each in enumerate(addresses):
        after = {**each, **{flag: number == index if wanted[flag] else each[flag] for flag in _FLAGS}}
        known = before.get(each["id"])
        if known is not None:
            after |= {"updated_at": known["updated_at"], "version": known["version"]}
            if after != known:
                after |= {"updated_at": None, "version": known["version"] + 1}  # dated when it is saved
        settled.append(after)
    return msgspec.structs.replace(customer, fields=with_defaults({**customer.fields, "addresses": settled}))


def with_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the ids of the default addresses. A new address gets its id when it is saved."""
    defaults = {
        f"default_{kind}_address_id": next(
            (each["id"] for each in fields["addresses"] if each[f"is_default_{kind}"]), None
        )
        for kind in ("shipping", "billing")
    }
    return {**fields, **defaults}


def address_faults(address: Mapping[str, Any], at: str) -> list[Fault]:
    faults = _phone_faults(address.get("phone"), f"{at}/phone")
    if str(address["country_code"]).upper() not in COUNTRIES:
        faults.append(Fault(f"{at}/country_code", "invalid_format", "must be a country code of ISO 3166-1, such as US"))
    return faults


def has_same_values(address: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Whether an address already has all values that were sent."""
    return all(
        address[name] == value for name, value in _normalized(sent).items() if name not in (*_FLAGS, *_MAINTAINED)
    )


def _normalized(address: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(address)
    if found.get("phone"):
        found["phone"] = e164(found["phone"])
    if found.get("country_code"):
        found["country_code"] = found["country_code"].upper()
    return found


def _flag_faults(addresses: list[NewAddress]) -> list[Fault]:
    faults: list[Fault] = []
    for flag in _FLAGS:
        flagged = [index for index, each in enumerate(addresses) if getattr(each, flag)]
        faults += [
            Fault(f"/addresses/{index}/{flag}", "invalid_format", "is also set on another address")
            for index in flagged[1:]
        ]
    return faults


def _address_limit(at: str) -> Fault:
    return Fault(at, "address_limit", f"must have at most {MOST_ADDRESSES} addresses")


# --- metadata --------------------------------------------------------------------------------------------------------


def owner_of(key: str, app_id: int | None) -> int | None:
    """The owner of a metadata key that this app writes; None: the key is shared."""
    return None if key.startswith(SHARED) else app_id


def _visible(metadata: Metadata, app_id: int | None) -> list[str]:
    """The keys that an app sees."""
    return [key for owner in {None, app_id} for key in metadata.get(owner, {})]


def merged(metadata: Metadata, patch: Mapping[str, Any], app_id: int | None, at: str) -> tuple[Metadata, list[Fault]]:
    """Metadata with a flat merge patch applied, and its faults. Each key goes to its owner; an operator owns none."""
    after = {owner: dict(entries) for owner, entries in metadata.items()}
    faults: list[Fault] = []
    for key, value in patch.items():
        if app_id is None and not key.startswith(SHARED):
            words = f"must start with {SHARED} because no app writes it"
            faults.append(Fault(f"{at}/{printable(key)}", "invalid_format", words))
            continue
        entries = after.setdefault(owner_of(key, app_id), {})
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = json_of(value)
    faults += [
        Fault(at, "metadata_limit", f"must have at most {MOST_KEYS} keys of the app and {MOST_KEYS} shared keys")
        for owner, entries in after.items()
        if len(entries) > MOST_KEYS and len(entries) > len(metadata.get(owner, {}))
    ]
    return {owner: entries for owner, entries in after.items() if entries}, faults


def _phone_faults(phone: Any, at: str) -> list[Fault]:
    if phone and e164(phone) is None:
        return [Fault(at, "invalid_format", "must be a phone number with its country code, such as +15550100123")]
    return []


def refuse(faults: list[Fault]) -> None:
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)


def _plain(body: msgspec.Struct) -> dict[str, Any]:
    """The members of a body as a document stores them: plain values that keep their digits."""
    members = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
    plain: dict[str, Any] = msgspec.to_builtins(members, builtin_types=(Decimal,))
    return plain
