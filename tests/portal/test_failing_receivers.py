"""Failing webhook receivers: their host, last error and page, on the overview of the developer and for operators."""

import msgspec
import pytest

from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_store, register_app
from stoa.app import Application
from stoa.db.pool import Database
from stoa.webhooks.delivery.failing_receivers import FailingReceiver
from tests.portal.path_params import REASONS
from tests.portal.store_pages import place_order
from tests.portal.webhook_data import add_subscription, emit_products
from tests.support.people import User, create_user
from tests.support.shops import SHIRT, Shop

URL = "https://user:pass@hooks.example.com:8443/in/secret-path?token=secret"


async def fail(by: Operator, store_id: int, app_id: int, *, error: str | None = None, status: int | None = None) -> int:
    """A subscription whose first delivery failed, with an open circuit breaker."""
    webhook_id = await add_subscription(by, store_id, app_id, url=URL)
    await emit_products(by, store_id)
    attempt = {"at": "2026-03-14T09:26:53Z", "duration_ms": 1, "response_status": status, "error": error}
    attempt |= {"response_body": None}
    await by.db.execute(
        "UPDATE pending_deliveries SET attempt_count = 1, attempts = $3 WHERE store_id = $1 AND webhook_id = $2",
        store_id,
        webhook_id,
        msgspec.json.encode([attempt]).decode(),
    )
    await by.db.execute(
        "UPDATE lanes SET breaker = 'open', failing_since = now() - interval '2 hours' WHERE store_id = $1 AND webhook_id = $2",
        store_id,
        webhook_id,
    )
    return webhook_id


async def test_the_overview_shows_the_failing_one_of_a_hundred_apps(
    shop: Shop, maria: User, operator: Operator
) -> None:
    made = [
        await register_app(operator, maria.account.id, f"Walker {n}", "", REASONS, f"{maria.account.id}:{n}")
        for n in range(100)
    ]
    failing = made[50]
    await install(operator, failing.client_id, shop.store.handle)
    webhook_id = await fail(operator, shop.store_id, failing.app_id, error="connection_refused")
    await maria.open("/portal")
    assert "1 webhook fails" in maria.text
    for expected in ("Failing webhooks", "hooks.example.com:8443", "Connection refused", "Walker 50", "2 hours ago"):
        assert expected in maria.text, expected
    await maria.open("/portal/apps")
    assert maria.text.count("Webhook fails") == 1
    await maria.open("/portal")
    page = f"/portal/apps/{failing.app_id}/webhooks/{shop.store.handle}/{webhook_id}"
    assert f'href="{page}"' in maria.text
    assert (await maria.open(page)).status_code == 200
    for expected in (
        "Why the receiver fails",
        "Nothing listens at its address. Check that it is running, and its port.",
        f"<dt>Failing URL</dt><dd><code>{URL}</code>",
        "<dt>Last error</dt><dd>Connection refused</dd>",
        f'href="{page}/deliveries?status=retrying"',
    ):
        assert expected in maria.text, expected
    assert len(maria.response.content) < 40_000
    await maria.open(f"{page}/deliveries?status=retrying")
    assert maria.text.count("<tr><td>") == 1


async def test_operators_see_the_receiver_its_error_and_links(
    shop: Shop, application: Application, db: Database, operator: Operator
) -> None:
    person = await create_user(application, db, operator=True)
    await fail(operator, shop.store_id, shop.app_id, status=503)
    await person.open("/portal/operators/health")
    for expected in (
        "hooks.example.com:8443",
        "Status 503",
        "It responds with 503, and only 2xx counts as success.",
        'href="#failing">Show more</a>',
        f'href="/portal/operators/apps/{shop.app_id}"',
        f'href="/portal/operators/stores/{shop.store.handle}"',
    ):
        assert expected in person.text, expected
    for secret in ("pass@", "secret-path", "token=secret"):
        assert secret not in person.text, "an operator does not see what may be a secret of the receiver"
    await person.client.aclose()


async def test_what_waits_in_the_last_of_many_stores_is_shown(
    shop: Shop, maria: User, store_url: str, operator: Operator
) -> None:
    await shop.add(SHIRT)
    await place_order(shop, status="processing")
    for n in range(8):
        await open_store(operator, maria.account.id, f"many-{maria.account.id}-{n}", f"Store {n}", "EUR")
    await maria.open("/portal")
    assert f"{store_url}/orders?status=pending%2Cprocessing" in maria.text


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (301, None, "Enter the final URL."),
        (403, None, "check its secret"),
        (500, None, "It responds with 500"),
        (None, "timeout", "Answer with 2xx first"),
        (None, "address_refused: the URL must have a public address", "Use a public address."),
        (None, "something_new", "The delivery log shows each attempt."),
        (None, None, "The delivery log shows each attempt."),
    ],
)
def test_an_error_comes_with_advice(status: int | None, error: str | None, expected: str) -> None:
    place = ("demo", 1, "Walker", 2, False, URL, 3, None, None)
    assert expected in FailingReceiver(*place, response_status=status, error=error).advice
