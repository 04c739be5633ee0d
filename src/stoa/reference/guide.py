"""The text of a guide as the reference shows it: calls and error codes in it are links to their pages."""

import re
from collections.abc import Sequence

from stoa.guides.library import Guide
from stoa.guides.rendering import Rendered, render
from stoa.reference.document import Document
from stoa.reference.fault_codes import FAULT_CODES

_CALL = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /[\w/{}-]*")


def rendered_guide(guide: Guide, names: Sequence[str], document: Document) -> Rendered:
    return render(guide.text, names, lambda code: _address(code, document))


def _address(code: str, document: Document) -> str | None:
    """The page about something written as code: an error code or a call."""
    if code in document.codes or code in FAULT_CODES:
        return f"/problems/{code}"
    if not _CALL.fullmatch(code):
        return None
    verb, _, path = code.partition(" ")
    for each in document.operations:
        if each.method == verb and each.path.endswith(f"/app{path}"):
            return document.addresses[each.operation_id]
    return None
