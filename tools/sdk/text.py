"""What every generated module is made of: documentation, wrapped and quoted, and lines."""

import textwrap
from collections.abc import Iterable

DO_NOT_EDIT = "Written by `make sdk` from the declarations; do not edit."


def doc(text: str, indent: int) -> list[str]:
    if not text:
        return []
    pad = " " * indent
    paragraphs = [
        "\n".join(textwrap.wrap(part, 112 - indent, break_long_words=False, break_on_hyphens=False))
        for part in text.replace("\\", "\\\\").replace('"""', "'''").split("\n\n")
    ]
    quoted = '"""' + "\n\n".join(paragraphs)
    quoted += '"""' if len(paragraphs) == 1 and "\n" not in paragraphs[0] else '\n"""'
    return textwrap.indent(quoted, pad).split("\n")


def joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
