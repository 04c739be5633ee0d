"""Reasons why a report of schemathesis is not a finding: rules that OpenAPI cannot express, each by code, place and wording."""

import json
import re
from collections.abc import Iterable
from typing import Any

# Requests that match the OpenAPI document may be refused only for rules that JSON Schema cannot express:
# the current content of the store, by code,
_STORE_CODES = {
    "unknown_location",
    "unknown_sku",
    "unknown_variant",
    "unknown_customer",
    "unknown_event",
    "option_mismatch",
    # A batch with other faults has status 422, also if the stock refuses one of its items, which alone is a 409.
    "insufficient_stock",
    "stale_quantity",
    "currency_mismatch",
    "total_mismatch",
    "metadata_limit",
    "address_limit",
    "invalid_money",
}
# and rules between fields, or formats that need a table, by pointer and by the text of the error.
_RULES = [
    ("required", r".*/(email|id|variant_id|status|since|number|amount|tracking)", r"\bor\b|unless .+ is given"),
    # The required members of a batch item depend on its `op`.
    ("required", r"/items/\d+/(id|sku|external_id|data|data/name|data/price)", r"is required"),
    # The document leaves `data` open, because its fields depend on `op` too.
    ("unknown_field", r"/items/\d+/data(/.*)?", r""),
    ("required", r"/items/\d+/to_location", r"is required if op is transfer"),
    ("out_of_range", r"/items/\d+/quantity", r"must be at least 1 if op is transfer"),
    ("required", r"", r"requires a subscription with a url"),
    ("invalid_format", r"/accepts_marketing", r"contradicts consents"),
    ("required", r"/\w+", r"is required to match rows"),
    ("required", r"/line_items/\d+/(name|unit_price)", r"is required for a custom line item"),
    ("out_of_range", r".*/discounts/\d+/value", r"must be between 0 and 100 for a percentage"),
    ("invalid_format", r".*/country_code", r"must be a country code of ISO 3166-1"),
    ("invalid_format", r".*/phone", r"must be a (phone )?number with its country code"),
    (
        "invalid_format",
        r".*/\w+",
        r"goes with|(give|specify) either|requires|cannot be combined|must not be sent|must be another location|must be omitted when variants are sent|is also set on another address",
    ),
    ("invalid_format", r"/items/\d+/(id|if_version|match_by)", r"must be omitted when op is create"),
    ("not_found", r"/items/\d+/(id|sku|external_id)", r"no product of this store has this value"),
    ("out_of_range", r"/until", r"must be later than since"),
    ("out_of_range", r"/amount_refunded", r"must not be sent unless payment_status is partially_refunded"),
    ("invalid_format", r".*/image_id", r"must be the id of one of the product's images"),
    (
        "invalid_format",
        r"(/refund)?/(line_items/\d+/(line_item_)?id|options/\d+/name)",
        r"must not be repeated|is the name of another option",
    ),
    ("out_of_range", r"/payment/amount", r"must be more than 0"),
    # The contents of the order limit its refunds.
    ("not_found", r"/fulfillment_id|/refund/line_items/\d+/line_item_id", r"must be the id of a"),
    ("out_of_range", r"/refund/.*", r"must (be (at most|false unless)|make the refund|not be more than the amount)"),
    ("not_found", r"/delivery_ids/\d+", r"is not a delivery of this subscription"),
    ("out_of_range", r".*/stock/on_hand", r"leaves less than zero available"),
    ("out_of_range", r".*/\w+", r"^makes the .+ exceed"),
    # The dictionary of events in schemathesis.toml may repeat an event, which the document forbids.
    ("invalid_format", r"/events/\d+", r"occurs more than once"),
    ("invalid_format", r"/headers/.*", r"is reserved for the service|occurs more than once"),
    # The valid fields and values depend on the events of the subscription.
    ("invalid_format", r"/filter/.*", r"^(must|does not|may|takes|has)"),
    ("unknown_field", r"/(fields/\d+|filter/.*)", r"is not a field of any of these events"),
    ("invalid_parameter", r"cursor", r"must be the next_cursor or prev_cursor of an earlier page"),
    # The fraction digits and the largest amount depend on the currency.
    ("invalid_parameter", r"(price|total|total_spent)(\[\w+\])?", r"fraction digits|must be at most|is too large"),
    ("invalid_parameter", r"per_page", r"is an alias of limit; send only one of them"),
    ("invalid_parameter", r"phone", r"must be a (phone )?number with its country code"),
    ("invalid_parameter", r"q|name", r"must contain a word"),
    ("invalid_parameter", r"sort", r"accepts each of .* once"),
    # A comma in one of several values divides it.
    ("invalid_parameter", r"sku|barcode|external_id", r"must have values of .* separated by commas"),
]
_REQUEST_RULES = [
    (400, "page_too_deep", r""),
    (400, "invalid_parameter", r"wait requires after|A feed accepts only"),
    (400, "invalid_parameter", r"mode=create cannot be combined"),
    # Numbers of more than 64 characters, which no schema describes.
    (400, "malformed_json", r"A number has too many digits|A number exceeds 64 bits"),
    (400, "invalid_parameter", r"Send either `page` or `cursor`"),
    # The file of an import is a plain string in the document.
    (422, "validation_failed", r"The file has no (header|rows)"),
]

# Bodies may also contain decimals as a number; the document describes only the exact form, a string.
_DECIMAL_AS_NUMBER = re.compile(r"(price|total|amount(_\w+)?|rate|value): Incorrect type$", re.MULTILINE)


def reason(kind: str, message: str, status: int, content: bytes) -> str:
    """Why a failed check is not a finding; empty if it is one."""
    if kind == "RejectedPositiveData":
        return _rule(status, json.loads(content))
    if kind == "AcceptedNegativeData" and _DECIMAL_AS_NUMBER.search(message):
        return "a decimal as a number"
    if status == 414 and not content:
        return "a URL of more than 64 KiB, which the server refuses before our code"
    return ""


def _rule(status: int, problem: dict[str, Any]) -> str:
    """The rule by which a body or a parameter was refused; empty if the document should describe it."""
    faults: Iterable[dict[str, Any]] = problem.get("errors", [])
    if not faults:
        refusal = (status, problem["code"])
        expected = any(
            refusal == (of_rule, code) and re.match(words, problem["detail"]) for of_rule, code, words in _REQUEST_RULES
        )
        return str(problem["code"]) if expected else ""
    reasons = [_fault(fault) for fault in faults]
    return reasons[0] if all(reasons) else ""


def _fault(fault: dict[str, Any]) -> str:
    if fault["code"] in _STORE_CODES:
        return str(fault["code"])
    for code, pointer, words in _RULES:
        if fault["code"] == code and re.fullmatch(pointer, fault["pointer"]) and re.search(words, fault["detail"]):
            shown = re.sub("[0-9]+", "n", re.sub(r"^/(filter|headers)/.*", r"/\1", fault["pointer"]))
            return f"{code} at {shown}"
    return ""
