"""The page of an app's endpoint: addresses, signing secret, deliveries on each store, tests and redelivery."""

import re

from stoa.access.grants import uninstall
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from stoa.webhooks.app_callbacks import callbacks_of
from tests.portal.installed_app import InstalledApp, install_app
from tests.support.people import User, create_user
from tests.support.receivers import Receiver
from tests.webhooks.workers import log, until, with_loopback, working

RETURN = "https://app.example.com/installed"
_SECRET = re.compile(r'id="signing-secret">(whsec_\w{44})<')


async def test_the_addresses_are_set_and_the_secret_is_shown_once(app: InstalledApp, maria: User, db: Database) -> None:
    url = f"{app.path}/endpoint"
    await maria.open(url)
    await maria.submit(url, endpoint_url="gopher://x", return_urls="")
    assert maria.faults == {"endpoint_url": "Enter a URL that starts with https://."}
    await maria.submit(url, endpoint_url="http://127.0.0.1/", return_urls="")
    assert "endpoint_url" in maria.faults
    await maria.submit(url, endpoint_url="", return_urls=f"{RETURN}\nhttp://app.example.com/")
    assert "http://app.example.com/" in maria.faults["return_urls"]
    assert (await callbacks_of(db, app.app_id)).return_urls == []
    await maria.submit(url, endpoint_url="", return_urls=RETURN)
    found = _SECRET.search(maria.text)
    assert found
    await maria.open(url)
    assert found[1] not in maria.text
    assert f"/portal/install/{app.client_id}?scope=" in maria.text
    await maria.submit(url, endpoint_url="", return_urls=f"{RETURN}\nhttp://localhost:3000/done")
    assert (maria.notice, maria.path) == ("Saved.", url)
    await maria.submit(f"{url}/secret", grace_hours="24")
    rotated = _SECRET.search(maria.text)
    assert rotated
    assert rotated[1] != found[1]
    await maria.open(url)
    assert "two secrets until" in maria.text


async def test_each_store_has_a_log_with_tests_and_redelivery_also_after_the_uninstall(
    settings: Settings, db: Database
) -> None:
    application = Application(with_loopback(settings))
    maria = await create_user(application, db)
    app = await install_app(maria, db, {"products:read": "To list them."})  # it may not read webhooks by the API
    url = f"{app.path}/endpoint"
    async with Receiver() as receiver, working(settings):
        await maria.open(url)
        await maria.submit(url, endpoint_url=receiver.url, return_urls="")
        secret = _SECRET.search(maria.text)
        assert secret
        await uninstall(app.by, app.client_id, app.handle)
        await receiver.until(1)
        await maria.open(url)
        hook = re.search(rf"{app.path}/webhooks/{app.handle}/(\d+)", maria.text)
        assert hook
        webhook_id = int(hook[1])

        async def ended() -> bool:
            return any(each["status"] == "succeeded" for each in await log(db, webhook_id))

        await until(ended, "the delivery is settled")
        page = app.hook(webhook_id)
        await maria.open(page)
        assert "Delete subscription" not in maria.text
        await maria.submit(f"{page}/test", event="customer.erased")
        assert "Test succeeded" in maria.text
        tested = receiver.received[-1]
        assert tested.verify(secret[1])["store"]["handle"] == app.handle
        assert tested.event["data"].keys() == {"id"}
        await maria.open(f"{page}/deliveries")
        assert "app.uninstalled" in maria.text
        await maria.open(f"{page}/deliveries/1")
        assert app.handle in maria.text
        assert '"base_url"' in maria.text
        await maria.submit(f"{page}/deliveries/1/again")

        async def again() -> bool:
            return ("app.uninstalled", 2) in [
                (each.event["type"], each.event["sequence"]) for each in receiver.received
            ]

        await until(again, "the event of the uninstall is sent again")
        # What belongs to subscriptions does not exist here.
        for action in ("pause", "secret", "delete"):
            await maria.open(page)
            await maria.submit(f"{page}/{action}", grace_hours="0", confirmed="on")
            assert maria.response.status_code == 404, action
    zeno = await create_user(application, db)
    for path in (url, page, f"{page}/deliveries/1"):
        assert (await zeno.open(path)).status_code == 404
    for user in (maria, zeno):
        await user.client.aclose()
    await application.close()
