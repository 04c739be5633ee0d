"""The color theme: light, dark, or the system's; stored in a cookie."""

import msgspec

from stoa.portal.kit.pages import ROOT, Audience, Pages, Redirect, return_path
from stoa.portal.kit.visit import THEMES, Visit

pages = Pages()


class ThemeForm(msgspec.Struct):
    theme: str = ""
    next: str = ""


@pages.page("/theme", audience=Audience.ANYONE)
async def theme_page(visit: Visit) -> Redirect:
    return Redirect(ROOT)


@pages.form("/theme", on=theme_page)
async def choose_theme(visit: Visit, form: ThemeForm) -> Redirect:
    theme = form.theme if form.theme in THEMES else THEMES[0]
    return Redirect(return_path(form.next), theme=theme)
