"""From a view to HTML: templates that escape everything and refuse what is not defined."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from stoa.access.contract import SCOPES
from stoa.html import environment
from stoa.portal.assets import assets
from stoa.portal.forms import TOKEN
from stoa.portal.pages import Form, Page
from stoa.portal.visit import Visit

_GROUPS = {
    "products": "Products",
    "inventory": "Stock",
    "orders": "Orders",
    "customers": "Customers",
    "webhooks": "Webhooks",
}
_AGO = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"), (1000, "year"))


class FormView:
    """A form as a template sees it: where it goes, and for each field the value and the fault to show."""

    def __init__(self, form: Form, address: str, visit: Visit) -> None:
        self.address = address
        self.id = address.removeprefix("/portal/").replace("/", "-")
        self._filled = visit.filled if visit.filled and visit.filled.address == address else None

    def value(self, field: str, default: Any = "") -> Any:
        """What was typed before, or what stands there at first."""
        if self._filled is None:
            return default
        return self._filled.values.get(field, [""])[-1]

    def chosen(self, field: str, value: str, *, default: bool = False) -> bool:
        """Whether a box or an option is ticked."""
        return default if self._filled is None else value in self._filled.values.get(field, [])

    def fault(self, field: str) -> str:
        """What is wrong with a field; an empty name asks about the form as a whole."""
        return self._filled.faults.get(field, "") if self._filled else ""


class Renderer:
    """Renders views with the pages and forms that addresses are made from."""

    def __init__(self, pages: Sequence[Page], forms: Sequence[Form], navigation: Callable[[Visit], Any]) -> None:
        self._pages = {page.name: page for page in pages}
        self._forms = {form.name: form for form in forms}
        self._navigation = navigation

    def html(self, visit: Visit, template: str, context: Mapping[str, Any], current: str = "") -> str:
        def url(name: str, **places: Any) -> str:
            return self._pages[name].address({**visit.request.path_params, **places})

        def form(name: str, **places: Any) -> FormView:
            declared = self._forms[name]
            return FormView(declared, declared.address({**visit.request.path_params, **places}), visit)

        shared: dict[str, Any] = {
            "scope_groups": _scope_groups(),
            "visit": visit,
            "me": visit.person,
            "url": url,
            "form_of": form,
            "current": current,
            "navigation": self._navigation(visit),
            "asset": _asset,
            "token_field": TOKEN,
        }
        templates = _environment()
        shared["ui"] = templates.get_template("parts.html").make_module(shared)
        return templates.get_template(template).render({**shared, **context})


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., Any]] = {
        "ago": ago,
        "moment": moment,
        "words": scope_words,
        "initials": initials,
        "browser": browser,
        "filename": filename,
    }
    return environment("stoa.portal", **filters)


@cache
def _scope_groups() -> list[tuple[str, list[str]]]:
    """The scopes by what they are about, as a chooser shows them."""
    nouns = dict.fromkeys(scope.partition(":")[0] for scope in SCOPES)
    return [(_GROUPS.get(noun, noun), [scope for scope in SCOPES if scope.startswith(f"{noun}:")]) for noun in nouns]


def _asset(name: str) -> str:
    return assets()[name].address


def moment(when: datetime) -> Markup:
    """A time that people and programs can read."""
    utc = when.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        utc.isoformat(timespec="seconds"), f"{utc:%-d %b %Y, %H:%M} UTC"
    )


def ago(when: datetime) -> Markup:
    """How long ago, with the exact time behind it."""
    utc = when.astimezone(UTC)
    amount = max(0, int((datetime.now(UTC) - utc).total_seconds()))
    words = "just now"
    for size, unit in _AGO:
        if amount < size or unit == "year":
            words = "just now" if unit == "second" else f"{amount} {unit}{'' if amount == 1 else 's'} ago"
            break
        amount //= size
    exact = f"{utc:%-d %b %Y, %H:%M} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(utc.isoformat(timespec="seconds"), exact, words)


def scope_words(scope: str) -> str:
    """What a scope allows, in plain words."""
    return SCOPES.get(scope, scope)


def initials(name: str) -> str:
    """One or two letters to stand for a name."""
    parts = [part for part in name.split() if part[0].isalnum()]
    return "".join(part[0] for part in (parts[:1] + parts[-1:] if len(parts) > 1 else parts)).upper() or "?"


def browser(agent: str) -> str:
    """What a user agent calls itself, in two words; browsers claim to be each other, so the order matters."""
    names = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl", "python-httpx")
    systems = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
    name = next((each for each in names if each in agent), "")
    system = next((each for each in systems if each in agent), "")
    plain = {"Edg": "Edge", "OPR": "Opera", "python-httpx": "httpx"}.get(name, name)
    return " on ".join(part for part in (plain, system) if part) or "Unknown browser"


def filename(name: str) -> str:
    """A name fit for a file."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "app"
