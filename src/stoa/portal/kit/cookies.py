"""The portal's cookies: session, notice, theme and device."""

from starlette.requests import Request
from starlette.responses import Response

from stoa.settings import Settings


class Cookies:
    """The portal's cookies on one request. Over TLS their names start with `__Host-`, so no other host can set them."""

    def __init__(self, request: Request, settings: Settings) -> None:
        self._received = request.cookies
        self.secure = request.scope["scheme"] == "https" or settings.public_url.startswith("https://")
        self._prefix = "__Host-" if self.secure else ""

    def read(self, name: str) -> str:
        return self._received.get(f"{self._prefix}stoa_{name}", "")

    def write(self, response: Response, name: str, value: str, *, seconds: int | None = None) -> None:
        """Set a cookie for some seconds, or until the browser closes; an empty value deletes it."""
        response.set_cookie(
            f"{self._prefix}stoa_{name}",
            value,
            max_age=seconds if value else 0,
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="lax",
        )
