"""The color theme of the documentation, in the cookie of the portal: pages arrive in it, so that they never change color."""

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from stoa.reference.rendering import SYSTEM_THEME

_CHOSEN = ("light", "dark")
_NAME, _SECURE_NAME = "stoa_theme", "__Host-stoa_theme"  # the second one over TLS, so that no other host can set it
_YEAR_S = 365 * 86_400
_MOST_BYTES = 1_000
_PAGES = ("/docs", "/problems/")


def theme_of(request: Request) -> str:
    """The theme that the reader has chosen, here or in the portal; empty for the theme of the system."""
    chosen = request.cookies.get(_SECURE_NAME) or request.cookies.get(_NAME, "")
    return chosen if chosen in _CHOSEN else ""


def themed(page: str, theme: str) -> str:
    """A page with the theme that its reader has chosen."""
    if not theme:
        return page
    return (
        page.replace(f'data-theme="{SYSTEM_THEME}"', f'data-theme="{theme}"', 1)
        .replace(f'value="{SYSTEM_THEME}" aria-pressed="true"', f'value="{SYSTEM_THEME}" aria-pressed="false"', 1)
        .replace(f'value="{theme}" aria-pressed="false"', f'value="{theme}" aria-pressed="true"', 1)
    )


async def choose(request: Request, *, secure: bool) -> Response:
    """Store the theme of the form at the top of each page, and return to the page."""
    body = bytearray()
    async for part in request.stream():
        body += part[: _MOST_BYTES - len(body)]
    fields = parse_qs(body.decode("ascii", "replace"))
    theme, back = fields.get("theme", [""])[0], fields.get("next", [""])[0]
    known = back.startswith(_PAGES) and back.isascii() and back.isprintable() and "\\" not in back
    response = RedirectResponse(back if known else _PAGES[0], 303, headers={"Cache-Control": "no-store"})
    response.set_cookie(
        _SECURE_NAME if secure else _NAME,
        theme if theme in _CHOSEN else SYSTEM_THEME,
        max_age=_YEAR_S,
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )
    return response
