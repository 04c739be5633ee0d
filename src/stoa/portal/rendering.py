"""Renders views with Jinja: all output is escaped, and undefined names are errors."""

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
    "inventory": "Inventory",
    "orders": "Orders",
    "customers": "Customers",
    "webhooks": "Webhooks",
}
_AGO = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"), (1000, "year"))


class FormView:
    """A form in a template: its URL, and the value and fault of each field."""

    def __init__(self, url: str, visit: Visit) -> None:
        self.url = url
        self.id = url.removeprefix("/portal/").replace("/", "-")
        self._submitted = visit.submitted if visit.submitted and visit.submitted.url == url else None

    def value(self, field: str, default: Any = "") -> Any:
        """Return the submitted value, or the initial one."""
        if self._submitted is None:
            return default
        return self._submitted.values.get(field, [""])[-1]

    def chosen(self, field: str, value: str, *, default: bool = False) -> bool:
        """Whether a checkbox or an option is selected."""
        return default if self._submitted is None else value in self._submitted.values.get(field, [])

    def fault(self, field: str) -> str:
        """Return the fault of a field; the empty name means the form as a whole."""
        return self._submitted.faults.get(field, "") if self._submitted else ""


class Renderer:
    """Renders views; knows all pages and forms, to build their URLs."""

    def __init__(self, pages: Sequence[Page], forms: Sequence[Form], navigation: Callable[[Visit], Any]) -> None:
        self._pages = {page.name: page for page in pages}
        self._forms = {form.name: form for form in forms}
        self._navigation = navigation

    def html(self, visit: Visit, template: str, context: Mapping[str, Any], current: str = "") -> str:
        def url(name: str, **path_params: Any) -> str:
            return self._pages[name].url({**visit.request.path_params, **path_params})

        def form(name: str, **path_params: Any) -> FormView:
            return FormView(self._forms[name].url({**visit.request.path_params, **path_params}), visit)

        shared: dict[str, Any] = {
            "scope_groups": _scope_groups(),
            "visit": visit,
            "me": visit.account,
            "url": url,
            "form_of": form,
            "current": current,
            "navigation": self._navigation(visit),
            "asset": _asset,
            "token_field": TOKEN,
        }
        templates = _environment()
        shared["ui"] = templates.get_template("components.html").make_module(shared)
        return templates.get_template(template).render({**shared, **context})


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., Any]] = {
        "ago": ago,
        "exact_time": exact_time,
        "describe_scope": describe_scope,
        "initials": initials,
        "browser": browser,
        "filename": filename,
    }
    return environment("stoa.portal", **filters)


@cache
def _scope_groups() -> list[tuple[str, list[str]]]:
    """Return the scopes by resource, for the scope chooser."""
    resources = dict.fromkeys(scope.partition(":")[0] for scope in SCOPES)
    return [
        (_GROUPS.get(resource, resource), [scope for scope in SCOPES if scope.startswith(f"{resource}:")])
        for resource in resources
    ]


def _asset(name: str) -> str:
    return assets()[name].url


def exact_time(when: datetime) -> Markup:
    """Format an exact time."""
    utc = when.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        utc.isoformat(timespec="seconds"), f"{utc:%-d %b %Y, %H:%M} UTC"
    )


def ago(when: datetime) -> Markup:
    """Format a relative time; the tooltip shows the exact one."""
    utc = when.astimezone(UTC)
    amount = max(0, int((datetime.now(UTC) - utc).total_seconds()))
    label = "just now"
    for size, unit in _AGO:
        if amount < size or unit == "year":
            label = "just now" if unit == "second" else f"{amount} {unit}{'' if amount == 1 else 's'} ago"
            break
        amount //= size
    exact = f"{utc:%-d %b %Y, %H:%M} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(utc.isoformat(timespec="seconds"), exact, label)


def describe_scope(scope: str) -> str:
    return SCOPES.get(scope, scope)


def initials(name: str) -> str:
    """Return the one or two initials of a name."""
    parts = [part for part in name.split() if part[0].isalnum()]
    return "".join(part[0] for part in (parts[:1] + parts[-1:] if len(parts) > 1 else parts)).upper() or "?"


def browser(agent: str) -> str:
    """Return the browser and system of a user agent. Browsers also send each other's names, so the order matters."""
    names = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl", "python-httpx")
    systems = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
    name = next((each for each in names if each in agent), "")
    system = next((each for each in systems if each in agent), "")
    label = {"Edg": "Edge", "OPR": "Opera", "python-httpx": "httpx"}.get(name, name)
    return " on ".join(part for part in (label, system) if part) or "Unknown browser"


def filename(name: str) -> str:
    """Return a name that is safe as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "app"
