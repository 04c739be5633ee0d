"""Checks the settings of a subscription, all faults at once."""

from collections.abc import Collection

from stoa.events.outbox import Event
from stoa.rest.problems import Fault
from stoa.webhooks.api import changed_fields, filters, rules
from stoa.webhooks.api.contract import NewWebhook
from stoa.webhooks.http import address_guard


def check_settings(
    body: NewWebhook,
    given: Collection[str],
    faults: list[Fault],
    *,
    digits: int | None,
    webhook_allow: str,
    stored_headers: Collection[str] = (),
) -> dict[str, str]:
    """Add every fault to those of the document, and return the normalized filter. Only given URLs and filters are checked
    again; without digits, a filter is for stores of all currencies."""
    known = Event.subscribable()
    rules.check_events(body.events, known, faults)
    wanted = rules.selected_events(body.events, known)
    documents = [event.resource for event in wanted if event.resource is not None]
    kept: dict[str, str] = {}
    if documents:
        if "filter" in given:  # one that was stored before it was bounded stays until it is changed
            filters.check_size(body.filter, faults)
        kept = filters.checked(body.filter, documents, digits, faults)
        rules.check_fields(body.fields, wanted, faults)
        changed_fields.check(body.changed, wanted, faults)
    rules.check_headers(body.headers, faults, stored_headers)
    if body.url is not None and "url" in given:
        why = address_guard.refuse_url(body.url, address_guard.Allowed.parse(webhook_allow))
        if why is not None:
            faults.append(not_allowed(why))
    return kept


def not_allowed(why: str) -> Fault:
    return Fault("/url", "url_not_allowed", f"{why}; to receive events on your own machine, use stoa listen")
