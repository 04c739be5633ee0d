"""The forms of a page as a browser would submit them: their addresses, and the values that the page fills in."""

from html.parser import HTMLParser
from typing import Any

_NO_VALUE = ("submit", "button", "file", "reset")


class ShownForm:
    """A form with the addresses of its buttons; a group of boxes of which none is checked has its first one checked."""

    def __init__(self, form_id: str) -> None:
        self.id = form_id
        self.actions: set[str] = set()
        self.values: dict[str, list[str]] = {}
        self.first_boxes: dict[str, str] = {}

    def submitted(self) -> dict[str, list[str]]:
        boxes = {name: [value] for name, value in self.first_boxes.items() if name not in self.values}
        return {**self.values, **boxes}


class FormReader(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[ShownForm] = []
        self._open: ShownForm | None = None
        self._select: tuple[ShownForm, str, list[str], list[str]] | None = None
        self._textarea: tuple[ShownForm, str] | None = None
        self._elsewhere: list[tuple[str, dict[str, Any]]] = []
        self.feed(html)
        for owner, field in self._elsewhere:
            for form in self.forms:
                if form.id == owner:
                    self._input(form, field)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        field: dict[str, Any] = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = ShownForm(field.get("id", ""))
            self.forms.append(self._open)
            if field.get("method") == "post":
                self._open.actions.add(field["action"].partition("?")[0])
        elif tag == "button" and self._open is not None and "formaction" in field:
            self._open.actions.add(field["formaction"].partition("?")[0])
        elif tag == "input" and field.get("form"):
            self._elsewhere.append((field["form"], field))
        elif self._open is None:
            return
        elif tag == "input":
            self._input(self._open, field)
        elif tag == "select":
            self._select = (self._open, field["name"], [], [])
        elif tag == "option" and self._select is not None:
            value = field.get("value", "")
            self._select[2].append(value)
            if "selected" in field:
                self._select[3].append(value)
        elif tag == "textarea":
            self._textarea = (self._open, field["name"])
            self._open.values.setdefault(field["name"], [""])

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "select" and self._select is not None:
            form, name, options, selected = self._select
            form.values[name] = selected or options[:1]
            self._select = None
        elif tag == "textarea":
            self._textarea = None

    def handle_data(self, data: str) -> None:
        if self._textarea is not None:
            form, name = self._textarea
            form.values[name] = [data]

    def _input(self, form: ShownForm, field: dict[str, Any]) -> None:
        name, kind, value = field.get("name", ""), field.get("type", "text"), field.get("value", "")
        if not name or kind in _NO_VALUE:
            return
        if kind not in ("checkbox", "radio"):
            form.values.setdefault(name, []).append(value)
        elif "checked" in field:
            form.values.setdefault(name, []).append(value or "on")
        else:
            form.first_boxes.setdefault(name, value or "on")


def shown_form(html: str, url: str) -> dict[str, list[str]] | None:
    """The values of the form with this address; None if the page does not show it."""
    return next((form.submitted() for form in FormReader(html).forms if url in form.actions), None)
