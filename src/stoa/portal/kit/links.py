"""Invitations after their form: an email carries the link, or the page shows it to the person who passes it on."""

from stoa.accounts.contract import NewLink
from stoa.portal.kit.pages import Redirect, View


def invitation_made(link: NewLink, title: str, back: str, back_label: str) -> View | Redirect:
    """Return to the page of the invitations if the link was emailed, or else show the link, which is shown only now."""
    if not link.address:
        return Redirect(back, f"We have sent the invitation to {link.email} by email.")
    context = {"link": link, "title": title, "back": back, "back_label": back_label}
    return View("link.html", context, secret=True)
