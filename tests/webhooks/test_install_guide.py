"""The examples of docs/guides/installing.md: the event of an endpoint, and the program that verifies a return."""

import time
from typing import Any, cast

import msgspec

from stoa.access.apps import create_app
from stoa.access.grants import install
from stoa.settings import Settings
from stoa.webhooks.app_callbacks import install_content, install_signature, set_callbacks
from tests.docs.pages import GUIDES, blocks
from tests.support.receivers import Receiver
from tests.support.shops import Shop, operator_of
from tests.webhooks.workers import with_loopback, working

GUIDE = GUIDES / "installing.md"


def form(value: Any) -> Any:
    """The names of all members; the values may differ."""
    if isinstance(value, dict):
        return {name: form(each) for name, each in cast("dict[str, Any]", value).items()}
    return type(value).__name__


async def test_the_example_event_has_the_real_form(shop: Shop, settings: Settings) -> None:
    [shown] = [msgspec.json.decode(block.text) for block in blocks(GUIDE, "json") if '"evt_' in block.text]
    by = operator_of(shop.db, with_loopback(settings))
    by.actor = "account:7"  # a merchant in the portal
    app = await create_app(by, "Stock Sync", shown["data"]["scopes"])
    async with Receiver() as receiver, working(settings):
        await set_callbacks(by, app.client_id, endpoint_url=receiver.url, return_urls=[])
        await install(by, app.client_id, shop.store.handle)
        [received] = await receiver.until(1)
    assert form(received.event) == form(shown)
    for name in ("type", "sequence", "actor", "changes"):
        assert received.event[name] == shown[name]
    assert received.event["data"]["scopes"] == shown["data"]["scopes"]


async def test_the_program_accepts_only_genuine_returns(shop: Shop) -> None:
    [program] = blocks(GUIDE, "python")
    names: dict[str, Any] = {}
    exec(program.text, names)  # noqa: S102 - our own page
    by = shop.operator
    made = await set_callbacks(by, shop.client_id, endpoint_url=None, return_urls=["https://app.example.com/"])
    secret, now = made.signing_secret, int(time.time())

    async def returned(timestamp: int) -> dict[str, str]:
        content = install_content(shop.client_id, "demo", timestamp, "state")
        signature = await install_signature(by, shop.app_id, content)
        return {"state": "state", "store": "demo", "timestamp": str(timestamp), "signature": signature}

    genuine = await returned(now)
    check = names["is_genuine"]
    assert check(genuine, shop.client_id, secret, "state")
    assert not check(genuine, shop.client_id, secret, "other")
    assert not check(genuine, "stoa_ci_other", secret, "state")
    assert not check({**genuine, "store": "other"}, shop.client_id, secret, "state")
    assert not check(await returned(now - 400), shop.client_id, secret, "state")
    for name in genuine:
        for text in ("", "\u00b2", "\u0663", "9" * 5000, "\u00e9"):
            assert not check({**genuine, name: text}, shop.client_id, secret, "state"), (name, text)
        assert not check({each: genuine[each] for each in genuine if each != name}, shop.client_id, secret, "state")
