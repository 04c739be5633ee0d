"""Links for other people, such as invitations: the page that shows a new one to the person who passes it on."""

from stoa.accounts.contract import NewLink
from stoa.portal.pages import View


def link_to_pass_on(link: NewLink, title: str, back: str, back_label: str) -> View:
    """Return the page with a new link, which is shown only now. Stoa sends no mail: the person passes it on."""
    context = {"link": link, "title": title, "back": back, "back_label": back_label}
    return View("link.html", context, secret=True)
