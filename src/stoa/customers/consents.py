"""Marketing consents by channel: how a request changes them, without a database."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

from msgspec import UNSET, UnsetType

from stoa.customers.bodies import ConsentChanges, ConsentsChanges
from stoa.customers.contract import Channel, ConsentState
from stoa.rest.problems import Fault

CHANNELS: tuple[str, ...] = get_args(Channel)
STATES: tuple[str, ...] = get_args(ConsentState)
SUBSCRIBED, UNSUBSCRIBED, NOT_SUBSCRIBED = "subscribed", "unsubscribed", "not_subscribed"
_NO_CONSENT: dict[str, Any] = {"state": NOT_SUBSCRIBED, "source": None, "updated_at": None}
NO_CONSENTS: dict[str, Any] = dict.fromkeys(CHANNELS, _NO_CONSENT)


def accepts_marketing(consents: Mapping[str, Any]) -> bool:
    return consents["email"]["state"] == SUBSCRIBED


def changed_consents(
    before: Mapping[str, Any] | None, sent: ConsentsChanges | UnsetType | None, accepts: bool | UnsetType
) -> tuple[dict[str, Any], list[Fault]]:
    """The consents after a request, and its faults; a new customer has none before.

    `accepts_marketing` repeats the email consent. A value that differs from the stored one changes it, unless the request
    changes the consent itself: then both must agree.
    """
    known = NO_CONSENTS if before is None else before
    after = {channel: _changed(known[channel], _sent(sent, channel)) for channel in CHANNELS}
    was = accepts_marketing(known)
    if not isinstance(accepts, bool) or (before is not None and accepts == was):
        return after, []
    if after["email"]["state"] == known["email"]["state"] and accepts != was:
        state = SUBSCRIBED if accepts else UNSUBSCRIBED
        after["email"] = _changed(known["email"], _sent(sent, "email") or UNSET, state)
    elif after["email"]["state"] != known["email"]["state"] and accepts != accepts_marketing(after):
        return after, [Fault("/accepts_marketing", "invalid_format", "contradicts consents.email.state")]
    return after, []


def _sent(sent: ConsentsChanges | UnsetType | None, channel: str) -> ConsentChanges | UnsetType | None:
    return getattr(sent, channel) if isinstance(sent, ConsentsChanges) else sent


def _changed(
    before: Mapping[str, Any], sent: ConsentChanges | UnsetType | None, state: str | None = None
) -> dict[str, Any]:
    """A consent after a change, with another `state` if it is given. Without a time of its own, it is dated when it is saved."""
    if sent is None:
        return dict(_NO_CONSENT)
    change = ConsentChanges() if isinstance(sent, UnsetType) else sent
    after = {
        "state": state or (before["state"] if change.state is UNSET else change.state),
        "source": before["source"] if change.source is UNSET else change.source,
        "updated_at": _rfc3339(change.updated_at) if isinstance(change.updated_at, datetime) else before["updated_at"],
    }
    if after != before and after["updated_at"] == before["updated_at"]:
        after["updated_at"] = None
    return after


def dated(fields: Mapping[str, Any], before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The fields of a customer with the time of each consent that changed now."""
    known = before["consents"] if before else NO_CONSENTS
    consents: dict[str, Any] = fields["consents"]
    if consents == known:
        return fields
    now = _rfc3339(datetime.now(UTC))
    settled = {
        channel: {**each, "updated_at": now} if _undated(each) and each != known[channel] else each
        for channel, each in consents.items()
    }
    return {**fields, "consents": settled}


def _undated(consent: Mapping[str, Any]) -> bool:
    return consent["updated_at"] is None and consent != _NO_CONSENT


def stored_state(fields: Mapping[str, Any], channel: str) -> str | None:
    """The state as its column stores it: nothing for a customer who never decided, so that the index has no entry."""
    state: str = fields["consents"][channel]["state"]
    return None if state == NOT_SUBSCRIBED else state


def matching_states(pairs: Mapping[str, str], accepts: bool | None) -> dict[str, list[str]]:
    """The states that the filters `consent` and `accepts_marketing` allow, by channel."""
    allowed = {channel: [state] for channel, state in pairs.items()}
    if accepts is not None:
        states = [each for each in STATES if (each == SUBSCRIBED) == accepts]
        allowed["email"] = [each for each in allowed.get("email", states) if each in states]
    return allowed


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
