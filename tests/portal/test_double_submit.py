"""Every form that its page shows, filled in, submitted twice at once and again in a second tab: done once, never an error."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.kit.pages import SIGN_IN, Audience
from stoa.portal.site_map import FORMS
from tests.portal.path_params import path_params_for
from tests.portal.shown_forms import shown_form
from tests.support.databases import on_cluster
from tests.support.people import PASSWORD, SAME_ORIGIN, User, create_user, signed_in_browser
from tests.support.shops import PERSON

# What is entered into fields that a page leaves empty, by the name of the field.
SAMPLES = {
    "address[address1]": "1 Mill Lane",
    "address[country_code]": "BE",
    # The public key of RFC 7517, appendix A.1.
    "jwk": '{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",'
    '"y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}',
    "body": "Ring twice.",
    "code": "attic",
    "confirmation": PERSON["email"],
    "currency": "EUR",
    "current": PASSWORD,
    "email": "colleague@example.com",
    "ends_at": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M}",
    "definition_key": "warranty",
    "name": "Walker",
    "pasted": 'name = "Walker"\n[scopes]\n"products:read" = "To list them."\n',
    "password": "another stroll through the stoa",
    "price": "9.00",
    "quantities": "7",
    "reason": "It must be.",
    "reasons": "To work.",
    "sku_list": "LS-S",
    "since": f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M}",
    "status": "processing",
    "text": "Maintenance at noon.",
    "title": "Winter",
    "units": "1",
}
# Actions that may be repeated, because that changes nothing, or is what the person wants.
AGAIN = {
    "account.password_changed": "each of them has proved the old password, and sets the same new one",
    "account.invited": "the link replaces the one before, and only one is valid; an email is sent once",
    "audit.exported": "each download is in the log",
    "collection.created": "a development store begins with several collections, each with an entry",
    "customers.exported": "each download is in the log",
    "metadata.defined": "a development store begins with several definitions, each with an entry",
    "mail.tested": "a test is sent as often as it is requested",
    "orders.exported": "each download is in the log",
    "products.exported": "each download is in the log",
    "store.deletion_scheduled": "the store is closed once, and erased once",
    "store.exported": "each download is in the log",
    "team.ownership_offered": "the offer replaces the one before",
    "team.invited": "the link replaces the one before, and only one is valid; an email is sent once",
    "token.all_revoked": "tokens are revoked once; the log counts them",
    "token.issued": "each token is shown, and expires soon",
    "webhook.redelivered": "delivery is at-least-once, and receivers ignore repeats by their id",
}
# Forms that need more than a page: a file, a code, another person, a service that sends email, or another state of what they
# change.
NOT_SHOWN = """
    app_accept_ownership app_decline_ownership app_leave apply_app_file app_revoke_invitation disable_account
    delete_development_store dismiss_announcement download_failed_rows download_report enable_account end_announcement
    check_corrected_rows place_sample_order read_notification refuse_request remove_filter renew_recovery_codes
    resend_failed_mails resend_mail reset_development_store resume_declaration resume_endpoint save_filter
    send_password_reset send_two_factor_reset send_verification ship_orders start_checked_import
    store_accept_ownership
    store_decline_ownership store_leave turn_off_two_factor withdraw_request"""
# Forms that need a file or a code, another store, or stock of each variant.
REFUSED = "add_picture request_install turn_on_two_factor upload_import write_order"
# Forms after which others have nothing to work on.
LAST = """
    redeliver_range delete_subscription uninstall_app store_remove_member app_remove_member forget_customer delete_store
    cancel_store_deletion delete_app end_other_sessions end_session change_password sign_out""".split()

# Sample data takes longer than the statement timeout there, for which a second submission waits.
SLOW_ON_CLUSTER = {"open_development_store", "open_development_store_for_app"}


@pytest.mark.long
async def test_a_form_that_is_submitted_twice_or_in_two_tabs_is_done_once(
    application: Application, db: Database
) -> None:
    await db.execute("DELETE FROM mails")  # failed mails of other tests would show a form
    user = await create_user(application, db, operator=True)
    other = await signed_in_browser(application, db, user.account)
    params = await path_params_for(user, db)
    samples = {**SAMPLES, "handle": params["handle"]}
    forms = [form for form in FORMS if form.audience in (Audience.SIGNED_IN, Audience.OPERATOR)]
    forms.sort(key=lambda form: (form.name in LAST, LAST.index(form.name) if form.name in LAST else 0))
    not_shown: set[str] = set()
    refused: set[str] = set()
    repeated: list[tuple[str, str]] = []
    for form in forms:
        url = form.url(params)
        user, tabs = await opened(user, db, form.page.url(params), url)
        if not tabs:
            not_shown.add(form.name)
            continue
        if form.name == "open_store":
            samples["handle"] = f"another-{user.account.id}"
        first, second = [fill_in(tab, samples) for tab in tabs]
        samples["handle"] = params["handle"]
        before = await entries(db)
        answers = await asyncio.gather(*(user.client.post(url, data=first, headers=SAME_ORIGIN) for _ in range(2)))
        new = await entries(db) - before
        repeated += [(form.name, action) for (_, action), count in new.items() if count > 1 and action not in AGAIN]
        answers.append(await user.client.post(url, data=second, headers=SAME_ORIGIN))
        codes = [answer.status_code for answer in answers]
        assert max(codes) < 500 or (form.name in SLOW_ON_CLUSTER and on_cluster()), f"{form.name}: {codes}"
        if min(codes[:2]) >= 400:
            refused.add(form.name)
        if form.name == "create_announcement":
            await db.execute("DELETE FROM announcements WHERE text = $1", SAMPLES["text"])  # everybody sees it
    for each in (user, other):
        await each.client.aclose()
    assert repeated == [], "done more than once"
    assert not_shown == set(NOT_SHOWN.split()), (
        "let tests/portal/path_params.py create what shows a new form, or list it"
    )
    assert refused == set(REFUSED.split()), "add samples for a new form"


async def opened(user: User, db: Database, page: str, url: str) -> tuple[User, list[dict[str, list[str]]]]:
    """Return the form with this address as two tabs show it; a form before may have ended the session."""
    response = await user.client.get(page)
    if response.status_code == 303 and response.headers["location"].startswith(SIGN_IN):
        await user.client.aclose()
        user = await signed_in_browser(user.application, db, user.account)
        response = await user.client.get(page)
    first = shown_form(response.text, url)
    if first is None:
        return user, []
    second = shown_form((await user.client.get(page)).text, url) if "key" in first else first
    assert second is not None
    return user, [first, second]


def fill_in(shown: dict[str, list[str]], samples: Mapping[str, str]) -> dict[str, list[str]]:
    """The values of a page, and samples for what it leaves empty."""
    return {
        name: [samples.get(name, samples.get(name.partition("[")[0], ""))] if values == [""] else values
        for name, values in shown.items()
    }


async def entries(db: Database) -> Counter[tuple[int, str]]:
    """The entries of all audit logs, counted by log and action."""
    rows = await db.fetch(
        "SELECT store_id, action FROM audit_entries UNION ALL SELECT 0, action FROM service_audit_entries"
    )
    return Counter((row[0], row[1]) for row in rows)
