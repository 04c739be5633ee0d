"""`stoa mcp`, which also says what to install if the library is missing."""

import asyncio
import os
import re
from urllib.parse import urlsplit

import click

from stoa import DISTRIBUTION
from stoa.access.console import WRONG_USAGE, Console, Refused
from stoa.mcp.task import Preset
from stoa.webhooks.listen import variables_from

_VARIABLES = ("STOA_BASE_URL", "STOA_CLIENT_ID", "STOA_CLIENT_SECRET")
_TOKEN = "STOA_MCP_TOKEN"  # noqa: S105 - the name of the variable
_INSTALL = f"stoa mcp needs the Model Context Protocol library: pip install '{DISTRIBUTION}[mcp]'"


@click.command()
@click.option("--write", is_flag=True, help="Also offer the tools that change the store.")
@click.option(
    "--tools",
    "presets",
    multiple=True,
    type=click.Choice(["catalog", "orders", "support"]),
    help="Offer only the tools of this work; repeatable.",
)
@click.option("--all", "everything", is_flag=True, help="Offer each operation of the API as a tool instead.")
@click.option("--scopes", default="", help="Use only these scopes of the app, separated by commas.")
@click.option("--http", "over_http", is_flag=True, help="Serve HTTP at /mcp instead of standard input and output.")
@click.option("--oauth", is_flag=True, help="With --http: admit callers with their own tokens, for every store.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help=f"Address to listen on; others need --oauth or {_TOKEN}."
)
@click.option("--port", default=8765, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option("--name", "names", multiple=True, help="A host name by which agents reach this server; repeatable.")
@click.option(
    "--max-characters",
    default=24_000,
    show_default=True,
    type=click.IntRange(2_000, 1_000_000),
    help="The size to which answers are cut.",
)
@click.option("--base-url", help="The base URL of the store; defaults to STOA_BASE_URL.")
@click.option("--client-id", help="The client id of the app; defaults to STOA_CLIENT_ID.")
@click.option("--client-secret", help="The client secret; prefer STOA_CLIENT_SECRET.")
@click.pass_obj
def mcp(
    console: Console,
    scopes: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    max_characters: int,
    presets: tuple[Preset, ...],
    *,
    write: bool,
    everything: bool,
    over_http: bool,
    oauth: bool,
    **options: str | None,
) -> None:
    """Let an agent use a store through the Model Context Protocol, with an app's credentials.

    The tools are tasks, such as find_orders and ship_order, as far as the scopes of the app allow them. Without --write,
    only those that change nothing are offered.

    \b
    Examples:
      stoa mcp
      stoa mcp --tools support --write
      stoa mcp --write --scopes products:read,inventory:read,inventory:write
      stoa mcp --all --write
      stoa mcp --http --port 8765
      stoa mcp --http --oauth --host 0.0.0.0
    """
    try:
        import mcp as library  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise Refused(_INSTALL) from error
    del library
    if everything and presets:
        raise Refused("--all offers every operation, so it excludes --tools", WRONG_USAGE)
    token = os.environ.get(_TOKEN, "")
    from stoa.mcp import operation_tools, serving, store, task_tools, transports  # noqa: PLC0415 - other commands need not load it

    if over_http and not (token or oauth or transports.is_loopback(host)):
        reason = f"{host} can be reached from other machines; use --oauth, or set {_TOKEN}, which agents must send"
        raise Refused(reason, WRONG_USAGE)
    offered = operation_tools.operation_tools() if everything else task_tools.preset_tools(frozenset(presets))
    served = serving.Serving(
        tools=offered, host=host, port=port, names=names, max_characters=max_characters, write=write
    )
    if oauth:
        if not over_http or scopes or token:
            raise Refused(f"--oauth needs --http, and excludes --scopes and {_TOKEN}: callers have tokens", WRONG_USAGE)
        service = re.sub(r"/stores/[^/]+/*$", "", options["base_url"] or console.settings.public_url).rstrip("/")
        if not service or not console.settings.mcp_url:
            needed = "STOA_MCP_URL, the URL of this server, and STOA_PUBLIC_URL or --base-url, that of the service"
            raise Refused(f"--oauth needs {needed}", WRONG_USAGE)
        for url in (service, console.settings.mcp_url):
            if not url.startswith("https://") and not transports.is_loopback(urlsplit(url).hostname or ""):
                raise Refused(f"{url} must begin with https://, because callers send tokens", WRONG_USAGE)
        asyncio.run(served.for_callers(service, console.settings.mcp_url))
        return
    given = {f"STOA_{option.upper()}": value for option, value in options.items()}
    found = variables_from(given, console.settings.data_dir / "demo.env", _VARIABLES)
    wanted = tuple(word.strip() for word in scopes.split(",") if word.strip())
    base_url, client_id, client_secret = (found[name] for name in _VARIABLES)
    asyncio.run(served.for_one_app(store.Store(base_url, client_id, client_secret, wanted), token, over_http=over_http))


COMMANDS = (mcp,)
