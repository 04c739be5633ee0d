"""The console in which requests are tried: empty here, filled and shown by the script alone."""

from stoa.reference.markup import Html, tag


def console() -> Html:
    connection = tag(
        "details",
        tag("summary", tag("b", "Connection"), tag("span", class_="state")),
        _field("Base URL", name="base", type="url"),
        tag("p", class_="notice abroad", hidden=True),
        # No password field: browsers would offer to keep the token longer than the tab.
        _field("Token", name="token", class_="masked", placeholder="Paste a token, or get one below"),
        tag("details", tag("summary", "Get a token"), _token_form()),
        tag(
            "p", "The token stays in this tab until you close it. The secret is sent once and not kept.", class_="hint"
        ),
        class_="connection",
    )
    close = tag("button", "\N{MULTIPLICATION SIGN}", type="button", class_="close", aria_label="Close")
    send = tag("button", "Send request", type="submit", form="console-fields", class_="send")
    layout = tag(
        "div",
        tag("header", tag("h2", id="console-title"), close),
        tag("div", connection, tag("form", id="console-fields", class_="fields", novalidate=True), class_="entry"),
        tag("div", send, tag("p", role="status", class_="said"), class_="line action"),
        tag("div", tag("div", class_="bar"), tag("pre", tabindex="0", role="region", aria_label="Output"),
            class_="card request output"),
        class_="layout",
    )  # fmt: skip
    return tag("dialog", layout, id="console", class_="console", aria_labelledby="console-title")


def _token_form() -> Html:
    return tag(
        "form",
        _field("Client id", name="client_id"),
        _field("Client secret", name="client_secret", type="password"),
        tag("div", tag("button", "Get a token", class_="plain"), tag("p", role="status", class_="said"), class_="line"),
        class_="token-form",
        method="post",
    )


def _field(label: str, **attributes: str) -> Html:
    entry = tag("input", autocomplete="off", spellcheck="false", **attributes)
    return tag("label", tag("span", label), entry, class_="field")
