"""Receivers to download: complete programs in Python and TypeScript that verify and print the events of an app.

The programs are files of the portal's assets, which the tests run. They name the variable of the secret, never the secret.
"""

from functools import cache
from importlib.resources import files
from urllib.parse import quote

import msgspec

from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import Visit

pages = Pages()
OF_SUBSCRIPTION, OF_APP = "STOA_WEBHOOK_SECRET", "STOA_SIGNING_SECRET"  # the variables of the secrets
DEFAULT_PORT = 8787
_LANGUAGES = (("Python", "receiver.py", "python3 receiver.py"), ("TypeScript", "receiver.ts", "node receiver.ts"))


class Receiver(msgspec.Struct, frozen=True):
    """A program: its file, and the command that starts it in the folder of the file."""

    language: str
    file: str
    command: str
    code: str

    @property
    def download(self) -> str:
        return f"data:text/plain;charset=utf-8,{quote(self.code)}"


def receivers(variable: str, port: int) -> list[Receiver]:
    """The receivers for a secret in this variable of the environment, listening at this port."""
    return [
        Receiver(language, file, command, _code(file).replace(OF_SUBSCRIPTION, variable).replace('"8787"', f'"{port}"'))
        for language, file, command in _LANGUAGES
    ]


@cache
def _code(file: str) -> str:
    return (files("stoa.portal") / "assets" / file).read_text(encoding="utf-8")


@pages.page("/apps/{app_id:int}/receivers", nav="list_apps")
async def app_receivers(visit: Visit) -> View:
    of_app, port = visit.query("of") == "app", visit.query("port")
    valid = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536
    variable = OF_APP if of_app else OF_SUBSCRIPTION
    context = {
        "variable": variable,
        "of_app": of_app,
        "receivers": receivers(variable, int(port) if valid else DEFAULT_PORT),
    }
    return View("apps/receivers.html", context)
