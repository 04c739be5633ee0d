"""How a page of the portal is declared: its path, who may see it, and the forms that stand on it."""

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, get_type_hints

import msgspec
from starlette.responses import Response

from stoa.portal.visit import Visit

ROOT = "/portal"
Handler = TypeVar("Handler", bound=Callable[..., Awaitable["Answer"]])
_PLACE = re.compile(r"{(\w+)(?::\w+)?}")


class Who(Enum):
    """Whom a page is for; everybody else is shown the way, or nothing at all."""

    ANYONE = "anyone"
    GUEST = "somebody who is not signed in"
    HALFWAY = "somebody who still owes the second factor"
    PERSON = "somebody who is signed in"
    OPERATOR = "somebody who runs the service"


class View(msgspec.Struct):
    """A page to be shown: its template and what stands in it. A `secret` one is never packed or kept."""

    template: str
    context: Mapping[str, Any] = {}
    status: int = 200
    secret: bool = False


class Redirect(msgspec.Struct):
    """Where the browser goes after a form; `notice` is said there once, in its tone. A session or a theme goes along
    as a cookie."""

    to: str
    notice: str = ""
    tone: str = "good"
    session: str | None = None
    theme: str | None = None


Answer = View | Redirect | Response


class Nothing(msgspec.Struct):
    """A form without fields: a single button."""


class Page(msgspec.Struct, frozen=True):
    """What GET answers at a path. A path that names {app_id} or {handle} is only for those who own that."""

    name: str
    path: str
    who: Who
    handler: Callable[[Visit], Awaitable[Answer]]
    under: str

    def address(self, places: Mapping[str, Any]) -> str:
        return _PLACE.sub(lambda place: str(places[place[1]]), self.path)


class Form(msgspec.Struct, frozen=True):
    """What POST does at a path, and the page that shows it, to which it returns with its faults."""

    name: str
    path: str
    handler: Callable[..., Awaitable[Answer]]
    fields: type[msgspec.Struct]
    page: Page
    viewers: bool

    @property
    def who(self) -> Who:
        return self.page.who

    def address(self, places: Mapping[str, Any]) -> str:
        return _PLACE.sub(lambda place: str(places[place[1]]), self.path)


class Pages:
    """The pages and forms of one part of the portal, in the order of their declaration."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.forms: list[Form] = []

    def page(self, path: str, *, who: Who = Who.PERSON, under: str = "") -> Callable[[Handler], Handler]:
        """Declare a page; `under` names the page that navigation marks as current, where it is not this one."""

        def declare(handler: Handler) -> Handler:
            name = handler.__name__
            self.pages.append(Page(name, f"{ROOT}{path}", who, handler, under or name))
            return handler

        return declare

    def form(self, path: str, *, on: Callable[..., Any], viewers: bool = False) -> Callable[[Handler], Handler]:
        """Declare a form: the handler's second parameter is the type of its fields. Viewers may send it only if said."""
        page = next(page for page in self.pages if page.handler is on)

        def declare(handler: Handler) -> Handler:
            hints = get_type_hints(handler, include_extras=True)
            fields: type[msgspec.Struct] = hints.get("form", Nothing)
            self.forms.append(Form(handler.__name__, f"{ROOT}{path}", handler, fields, page, viewers))
            return handler

        return declare
