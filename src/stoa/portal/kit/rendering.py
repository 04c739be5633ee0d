"""Renders views with Jinja: all output is escaped, and undefined names are errors."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Any

import msgspec
from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from stoa.access.contract import SCOPES
from stoa.accounts.rules import browser_of
from stoa.html import environment
from stoa.media.addresses import local_path
from stoa.portal.kit.assets import assets
from stoa.portal.kit.charts import sparkline
from stoa.portal.kit.forms import TOKEN
from stoa.portal.kit.pages import Form, Page
from stoa.portal.kit.visit import Visit

_GROUPS = {
    "products": "Products",
    "inventory": "Inventory",
    "orders": "Orders",
    "customers": "Customers",
    "webhooks": "Webhooks",
}
_PERSONAL = frozenset({"orders", "customers"})  # orders contain contacts and addresses
_AGO = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"), (1000, "year"))


class FormView:
    """A form in a template: its URL, whether the visitor may submit it, and the value and fault of each field."""

    def __init__(self, url: str, visit: Visit, *, allowed: bool) -> None:
        self.url = url
        self.allowed = allowed
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

    @property
    def faulty(self) -> bool:
        """Whether a field is invalid; it then gets the focus instead of the first field."""
        return any(self._submitted.faults) if self._submitted else False

    def fault(self, field: str) -> str:
        """Return the fault of a field; the empty name means the form as a whole."""
        return self._submitted.faults.get(field, "") if self._submitted else ""

    def stale(self, field: str) -> bool:
        """Whether somebody changed the value of a field since the page showed it; the empty name means the form as a whole."""
        return self._submitted is not None and field in self._submitted.stale


class Renderer:
    """Renders views; knows all pages and forms, to build their URLs."""

    def __init__(self, pages: Sequence[Page], forms: Sequence[Form], navigation: Callable[[Visit], Any]) -> None:
        self._pages = {page.name: page for page in pages}
        self._forms = {form.name: form for form in forms}
        self._navigation = navigation

    def html(self, visit: Visit, template: str, context: Mapping[str, Any], current: str = "") -> str:
        def url(name: str, **path_params: Any) -> str:
            return self._pages[name].url({**visit.request.path_params, **path_params})

        def may(name: str) -> bool:
            """Whether the visitor may submit a form, by the rule that the dispatcher checks."""
            return visit.may(self._forms[name].right)

        def form(name: str, **path_params: Any) -> FormView:
            form_url = self._forms[name].url({**visit.request.path_params, **path_params})
            return FormView(form_url, visit, allowed=may(name))

        shared: dict[str, Any] = {
            "scope_groups": _scope_groups(),
            "visit": visit,
            "me": visit.account,
            "url": url,
            "form_of": form,
            "may": may,
            "current": current,
            "navigation": self._navigation(visit),
            "asset": _asset,
            "token_field": TOKEN,
            "missing_shards": missing_shards,
        }
        templates = _environment()
        shared["ui"] = templates.get_template("components.html").make_module(shared)
        return templates.get_template(template).render({**shared, **context})


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., Any]] = {
        "ago": ago,
        "left": left,
        "exact_time": exact_time,
        "clock": clock,
        "precise_time": precise_time,
        "day": day,
        "describe_scope": describe_scope,
        "scope_marks": scope_marks,
        "initials": initials,
        "browser": browser_of,
        "filename": filename,
        "media_path": local_path,
        "sparkline": sparkline,
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


def missing_shards(away: Collection[str]) -> str:
    """Which shards did not answer, and what that means for the page."""
    names, one = ", ".join(sorted(away)), len(away) == 1
    verb, whose = ("does", "its") if one else ("do", "their")
    return (
        f"{'Shard' if one else 'Shards'} {names} {verb} not answer. This page lacks {whose} stores, "
        "and figures are without them. Reload it later."
    )


def _asset(name: str) -> str:
    return assets()[name].url


class _Zone(msgspec.Struct, frozen=True):
    """The zone of a page's times: the store's on its pages, else the visitor's, which only the script knows."""

    zone: tzinfo
    attribute: str  # marks times for the script


def _zone(context: Context) -> _Zone:
    visit = context["visit"]
    return _Zone(visit.zone, "") if hasattr(visit, "store") else _Zone(UTC, " data-visitor")


def _time(context: Context, when: datetime, label: str, *, precise: bool = False) -> Markup:
    """A time element: with a label, its tooltip has the exact time; without one, it shows the exact time."""
    page = _zone(context)
    local = when.astimezone(page.zone)
    seconds = f"{local:%H:%M:%S}" + (f".{local.microsecond // 1000:03}" if precise else "")
    exact = f"{local:%-d %b %Y}, {seconds} {local:%Z}"
    mark = Markup(page.attribute + (" data-precise" if precise else ""))  # noqa: S704 - constants
    utc = when.astimezone(UTC).isoformat(timespec="milliseconds" if precise else "seconds")
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(utc, exact, mark, label or exact)


@pass_context
def exact_time(context: Context, when: datetime) -> Markup:
    """Format an exact time, to the second."""
    return _time(context, when, "")


@pass_context
def precise_time(context: Context, when: datetime) -> Markup:
    """Format an exact time to the millisecond, for requests that are compared with other logs."""
    return _time(context, when, "", precise=True)


@pass_context
def clock(context: Context, when: datetime) -> Markup:
    """Format the time of day in UTC, to the millisecond; the tooltip shows the exact time."""
    return _time(context, when, when.astimezone(UTC).isoformat(timespec="milliseconds")[11:23], precise=True)


@pass_context
def day(context: Context, when: datetime) -> Markup:
    """Format the day of a time; the tooltip shows the exact time."""
    return _time(context, when, f"{when.astimezone(_zone(context).zone):%-d %B %Y}")


@pass_context
def ago(context: Context, when: datetime) -> Markup:
    """Format a relative time; the tooltip shows the exact one."""
    return _time(context, when, f"{_duration(datetime.now(UTC) - when)} ago")


@pass_context
def left(context: Context, when: datetime) -> Markup:
    """Format the time that is left until a moment; the tooltip shows the exact one."""
    return _time(context, when, f"{_duration(when - datetime.now(UTC))} left")


def _duration(between: timedelta) -> str:
    """A duration of at least a second in its largest whole unit."""
    amount = max(1, int(between.total_seconds()))
    for size, unit in _AGO:
        if amount < size or unit == "year":
            return f"{amount} {unit}{'' if amount == 1 else 's'}"
        amount //= size
    raise AssertionError("unreachable")


def describe_scope(scope: str) -> str:
    return SCOPES.get(scope, scope)


def scope_marks(scope: str) -> list[tuple[str, str]]:
    """What a merchant should notice before granting a scope, each with its tone."""
    personal = [("Personal data", "warn")] if scope.partition(":")[0] in _PERSONAL else []
    return [*personal, *([("Erases permanently", "bad")] if scope.endswith(":erase") else [])]


def initials(name: str) -> str:
    """Return the one or two initials of a name."""
    parts = [part for part in name.split() if part[0].isalnum()]
    return "".join(part[0] for part in (parts[:1] + parts[-1:] if len(parts) > 1 else parts)).upper() or "?"


def filename(name: str) -> str:
    """Return a name that is safe as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "app"
