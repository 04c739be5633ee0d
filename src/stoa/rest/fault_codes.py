"""The codes of single faults in `errors` that are no error codes of a whole response, with the text of their pages."""

FAULT_CODES: dict[str, str] = {
    "required": "A field is missing, or one of several fields must be sent.",
    "invalid_type": "The value has another JSON type than the field, such as text instead of a number.",
    "invalid_format": "The value has the right type but not the right form, or contradicts another field.",
    "invalid_money": "The amount is not a decimal number, is negative or too large, or has more fraction digits than the currency.",
    "out_of_range": "The value is below or above what is possible here; `meta` may contain the bound.",
    "too_long": "A text or a list is longer than the field allows.",
    "unknown_field": "The body has a field that the endpoint does not know; `meta.did_you_mean` may contain a suggestion.",
    "read_only_field": "The field appears only in responses. Leave it out, or send it back unchanged.",
    "unknown_sku": "No variant of the store has this SKU.",
    "unknown_variant": "The store has no variant with this id, or it was deleted.",
    "unknown_customer": "The store has no customer with this id, or the customer was erased.",
    "unknown_event": "No event has this name. `GET /webhooks` lists the events in `meta.available_events`.",
    "option_mismatch": "The option values of a variant do not match the options of its product.",
    "key_mismatch": "The keys of an item, such as `id` and `sku`, belong to different resources.",
    "currency_mismatch": "The currency differs from the currency of the store.",
    "total_mismatch": "A sum in the request differs from the one that Stoa computes, such as `total` or `tax_total`; `meta.expected` contains it.",
    "metadata_limit": "The resource would have more metadata keys than it can have.",
    "address_limit": "The customer would have more addresses than it can have.",
    "url_not_allowed": "Stoa does not send webhooks to this URL, because it is not public or its scheme is not allowed.",
    "duplicate_row": "An earlier row of the file has the same key.",
}
