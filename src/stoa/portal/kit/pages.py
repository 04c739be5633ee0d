"""How portal pages and forms are declared: path, audience, right, handler, and the type of a form's fields."""

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, get_type_hints

import msgspec
from starlette.responses import Response

from stoa.accounts.contract import Right
from stoa.portal.kit.visit import Visit

ROOT = "/portal"
SIGN_IN, TWO_FACTOR = f"{ROOT}/sign-in", f"{ROOT}/two-factor"
Handler = TypeVar("Handler", bound=Callable[..., Awaitable["PageResponse"]])
_OF_TEAM = re.compile(r"{(app_id:int|handle)}")
_PATH_PARAM = re.compile(r"{(\w+)(?::\w+)?}")


class Audience(Enum):
    """Who can open a page; everybody else is redirected, or gets a 404."""

    ANYONE = "anyone"
    GUEST = "not signed in"
    TWO_FACTOR_PENDING = "password accepted, code missing"
    SIGNED_IN = "signed in"
    OPERATOR = "signed in as an operator"


class View(msgspec.Struct):
    """A page to render: its template and context. A `secret` page is never compressed or cached.

    `returns_to` is the origin of another site to which a form of the page may redirect.
    """

    template: str
    context: Mapping[str, Any] = {}
    status: int = 200
    secret: bool = False
    returns_to: str = ""


class Redirect(msgspec.Struct):
    """Where the browser goes after a form. The target shows `notice` once; session, theme and device are set as cookies."""

    to: str
    notice: str = ""
    tone: str = "good"
    session: str | None = None
    theme: str | None = None
    device: str | None = None


PageResponse = View | Redirect | Response


def return_path(path: str) -> str:
    """Return a `next` parameter if it stays in the portal or the documentation, else the dashboard (no open redirect)."""
    inside = path == ROOT or path.startswith((f"{ROOT}/", f"{ROOT}?", "/docs/"))
    return path if inside and path.isascii() and path.isprintable() and "\\" not in path else ROOT


class NoFields(msgspec.Struct):
    """A form that is only a button."""


class Page(msgspec.Struct, frozen=True):
    """The GET handler of a path. Only members can open a path that names {app_id} or {handle}, if their role has the right."""

    name: str
    path: str
    audience: Audience
    right: Right
    handler: Callable[[Visit], Awaitable[PageResponse]]
    nav: str

    def url(self, path_params: Mapping[str, Any]) -> str:
        return _fill_in(self.path, path_params)


class Form(msgspec.Struct, frozen=True):
    """The POST handler of a path; an invalid form is shown again on `page`. Members need a role with the right."""

    name: str
    path: str
    right: Right
    handler: Callable[..., Awaitable[PageResponse]]
    fields: type[msgspec.Struct]
    page: Page
    upload: bool = False  # whether the form may contain a file
    in_shard: bool = False  # it writes only tables of its store, so it works where the store is
    while_closed: bool = False  # it needs the right to change a store, but works while the store is suspended or closed

    @property
    def audience(self) -> Audience:
        return self.page.audience

    def url(self, path_params: Mapping[str, Any]) -> str:
        return _fill_in(self.path, path_params)


def _fill_in(path: str, path_params: Mapping[str, Any]) -> str:
    return _PATH_PARAM.sub(lambda param: str(path_params[param[1]]), path)


class Pages:
    """The pages and forms of one module, in the order of their declaration."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.forms: list[Form] = []

    def page(
        self, path: str, *, audience: Audience = Audience.SIGNED_IN, nav: str = "", right: Right = Right.VIEW
    ) -> Callable[[Handler], Handler]:
        """Declare a page; `nav` names the page that the navigation marks as current, if it is not this one."""

        def declare(handler: Handler) -> Handler:
            name = handler.__name__
            self.pages.append(Page(name, f"{ROOT}{path}", audience, right, handler, nav or name))
            return handler

        return declare

    def form(
        self,
        path: str,
        *,
        on: Callable[..., Any],
        right: Right | None = None,
        name: str = "",
        upload: bool = False,
        in_shard: bool = False,
        while_closed: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Declare a form of the page `on`; the annotation of the handler's parameter `form` is the type of its fields.

        A form of an app or a store needs the right to change it, unless it declares another one. A form that changes a store
        is refused while the store is suspended or closed, unless it declares `while_closed`. Forms that share a handler have a
        `name`.
        """
        page = next(page for page in self.pages if page.handler is on)
        needed = right or (Right.CHANGE if _OF_TEAM.search(path) else Right.VIEW)

        def declare(handler: Handler) -> Handler:
            hints = get_type_hints(handler, include_extras=True)
            fields: type[msgspec.Struct] = hints.get("form", NoFields)
            self.forms.append(
                Form(
                    name or handler.__name__,
                    f"{ROOT}{path}",
                    needed,
                    handler,
                    fields,
                    page,
                    upload,
                    in_shard,
                    while_closed,
                )
            )
            return handler

        return declare
