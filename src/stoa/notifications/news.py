"""The texts of notifications: one function for each kind. Names come from others, so they are shortened to one line."""

from datetime import datetime

from stoa.mail.outbox import one_line
from stoa.notifications.contract import News
from stoa.notifications.queries import Named

_MAX_NAME, _MAX_REASON = 60, 500
_MONTH_S = 30 * 24 * 60 * 60


def shortened(name: str, most: int = _MAX_NAME) -> str:
    text = one_line(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def webhook_failing(app_id: int, webhook_id: int, named: Named) -> News:
    title = f"A webhook of {shortened(named.app)} fails"
    body = (
        f"Deliveries to a webhook of {shortened(named.app)} on {named.handle} fail. Stoa keeps the events and retries them less "
        "and less often. If no delivery succeeds for 72 hours, it disables the webhook."
    )
    path = f"/portal/apps/{app_id}/webhooks/{named.handle}/{webhook_id}"
    return News("webhook_failing", f"webhook:{webhook_id}", title, body, path, "See the deliveries")


def webhook_disabled(app_id: int, webhook_id: int, named: Named, reason: str) -> News:
    why = "its receiver responded with 410 (gone)" if reason == "gone" else "no delivery succeeded for 72 hours"
    title = f"A webhook of {shortened(named.app)} is disabled"
    body = (
        f"Stoa no longer sends events to a webhook of {shortened(named.app)} on {named.handle}, because {why}. The events stay "
        "readable for 30 days. Correct the receiver, then resume the webhook."
    )
    path = f"/portal/apps/{app_id}/webhooks/{named.handle}/{webhook_id}"
    return News("webhook_disabled", f"webhook:{webhook_id}", title, body, path, "See the webhook")


def install_request(app_id: int, app: str, store_id: int, handle: str, store: str) -> News:
    title = f"{shortened(app)} asks to be installed on {shortened(store)}"
    body = "Read which permissions it asks for and why, then install it with all or some of them, or refuse."
    subject = f"store:{store_id}/app:{app_id}"
    return News("install_request", subject, title, body, f"/portal/stores/{handle}", "Decide")


def app_suspended(app_id: int, app: str, reason: str) -> News:
    shown = shortened(reason, _MAX_REASON)
    body = f"An operator of this service has suspended {shortened(app)}. Every store refuses its requests until it is resumed."
    if shown:
        body += f"\n\nThe reason: {shown}"
    return News(
        "app_suspended",
        f"app:{app_id}",
        f"{shortened(app)} is suspended",
        body,
        f"/portal/apps/{app_id}",
        "Open the app",
    )


def secret_expires(app_id: int, app: str, secret: str, subject: str, expires_at: datetime, path: str) -> News:
    """`secret` says which one; the subject contains the time, so each rotation causes one notification."""
    title = f"An old secret of {shortened(app)} expires soon"
    body = (
        f"The {secret} of {shortened(app)} that you have replaced stops working at {expires_at:%H:%M} UTC on "
        f"{expires_at:%-d %B %Y}. Check that nothing uses it any more."
    )
    return News("secret_expires", f"{subject}@{expires_at:%s}", title, body, path, "See the secrets", _MONTH_S)


def import_finished(
    store: str, handle: str, import_id: str, app_id: int | None, outcome: tuple[str, str, int, int]
) -> News:
    """An app may import every few minutes; its imports with one outcome cause one notification an hour."""
    resource, status, rows, failed = outcome
    words = {
        "succeeded": "is finished",
        "partially_succeeded": "is finished, but some rows failed",
        "cancelled": "was cancelled",
    }
    title = f"An import of {resource} into {shortened(store)} {words.get(status, 'failed')}"
    body = f"{rows:,} row{'' if rows == 1 else 's'} read, {failed:,} failed. The report is kept for a few days."
    subject = f"import:{import_id}" if app_id is None else f"app:{app_id}/{handle}/{status}"
    return News(
        "import_finished", subject, title, body, f"/portal/stores/{handle}/imports/{import_id}", "See the report"
    )


def new_device(browser: str, address: str, device: str) -> News:
    title = "New sign-in to your account"
    body = (
        f"Somebody signed in to your account with {browser} at the address {address}. If this was you, there is nothing to do.\n\n"
        "If it was not, change your password now. This ends all sessions."
    )
    return News("new_device", f"device:{device}", title, body, "/portal/account", "Look at your sessions")
