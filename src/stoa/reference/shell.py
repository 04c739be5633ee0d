"""What every page shares: its head, the mark of the house, and the way to the contents."""

from urllib.parse import quote

from stoa.reference.markup import Html, join, link, tag

# A pediment on four columns and a step, drawn on a grid of 24.
_MARK = "M12 2 22 7v2H2V7zM3 21h18v2H3zM4 10.5h2.5v9H4zm4.5 0H11v9H8.5zm4.5 0h2.5v9H13zm4.5 0H20v9h-2.5z"
SYSTEM = "system"  # the theme of a reader who has chosen none
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
    f'<style>path{{fill:#0b5b78}}@media(prefers-color-scheme:dark){{path{{fill:#7cc5e0}}}}</style><path d="{_MARK}"/></svg>'
)


def brand(address: str, *words: str) -> Html:
    mark = Html(f'<svg viewBox="0 0 24 24" aria-hidden="true"><path fill="currentColor" d="{_MARK}"/></svg>')
    return link(address, mark, tag("b", "Stoa"), *(tag("span", word) for word in words), class_="brand")


def page(title: str, summary: str, *content: Html | None, script: str = "", **body: str | None) -> Html:
    """A whole document."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="description", content=summary),
        tag("title", title),
        tag("link", rel="icon", href=f"data:image/svg+xml,{quote(_ICON)}"),
        tag("link", rel="stylesheet", href="/docs/assets/reference.css"),
        tag("script", type="module", src=f"/docs/assets/{script}") if script else None,
    ]
    skip = link("#main", "Skip to the text", class_="skip")
    whole = tag(
        "html",
        tag("head", join(head, "\n")),
        "\n",
        tag("body", skip, "\n", join(content, "\n"), **body),
        lang="en",
        data_theme=SYSTEM,
    )
    return Html(f"<!doctype html>\n{whole}\n")
