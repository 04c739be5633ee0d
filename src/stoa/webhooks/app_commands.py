"""The commands of `stoa app`, completed by those for its callbacks (`callbacks` and `rotate-signing-secret`) and for its
subscriptions on all stores; `stoa.app_file.commands` adds those for its file."""

import click
import msgspec

from stoa.access.app_commands import app as app_group
from stoa.access.console import Console, Refused, print_one, warn_shown_once
from stoa.access.operator import Operator, find_app
from stoa.access.options import grace_options, json_option
from stoa.db.service_facts import noted_webhook_allow
from stoa.webhooks import app_callbacks
from stoa.webhooks.app_callbacks import Callbacks, InvalidEndpoint
from stoa.webhooks.app_subscription_commands import subscriptions


@click.command("callbacks")
@click.argument("app")
@click.option("--endpoint", metavar="URL", help="The https URL that receives the app's events from every store.")
@click.option("--no-endpoint", is_flag=True, help="Stop sending the app's events, and delete those that wait.")
@click.option(
    "--return-url", "return_urls", metavar="URL", multiple=True, help="Add a return address; may be repeated."
)
@click.option("--remove-return-url", "removed", metavar="URL", multiple=True, help="Remove one; may be repeated.")
@json_option
@click.pass_obj
def callbacks(
    console: Console,
    app: str,
    endpoint: str | None,
    return_urls: tuple[str, ...],
    removed: tuple[str, ...],
    *,
    no_endpoint: bool,
    as_json: bool,
) -> None:
    """Show or change the endpoint of an app, and the return addresses of its install links.

    The first endpoint or return address creates the app's signing secret, which is shown only once.

    \b
    Examples:
      stoa app callbacks 3
      stoa app callbacks 3 --endpoint https://app.example.com/stoa/events --return-url https://app.example.com/installed
    """
    if endpoint and no_endpoint:
        raise click.UsageError("Use either --endpoint or --no-endpoint.")

    async def change(by: Operator) -> Callbacks:
        before = await app_callbacks.callbacks_of(by.db, (await find_app(by.db, app)).id)
        if not (endpoint or no_endpoint or return_urls or removed):
            return before
        kept = [url for url in (*before.return_urls, *return_urls) if url not in removed]
        url = None if no_endpoint else endpoint or before.endpoint_url
        # The service sends, so its rule decides, also if it is not in the environment of this command.
        allowed = by.settings.webhook_allow or await noted_webhook_allow(by.db) or ""
        by.settings = msgspec.structs.replace(by.settings, webhook_allow=allowed)
        try:
            return await app_callbacks.set_callbacks(by, app, endpoint_url=url, return_urls=kept)
        except InvalidEndpoint as refusal:
            raise Refused(
                f"{refusal}. During development, name an address that is not public in STOA_WEBHOOK_ALLOW, such as "
                "localhost, and start the service with it; `stoa demo` allows this machine by itself"
            ) from refusal

    _print(console.run(change), as_json=as_json)


@click.command("rotate-signing-secret")
@click.argument("app")
@grace_options("also signs")
@json_option
@click.pass_obj
def rotate_signing_secret(console: Console, app: str, grace_hours: int, *, force: bool, as_json: bool) -> None:
    """Create a new secret to sign the app's events and install links; both secrets sign during the grace period.

    \b
    Example:
      stoa app rotate-signing-secret 3 --grace-hours 48
    """
    rotated = console.run(lambda by: app_callbacks.rotate_signing_secret(by, app, grace_hours=grace_hours, force=force))
    _print(rotated, as_json=as_json)


def _print(found: Callbacks, *, as_json: bool) -> None:
    print_one(found, as_json=as_json)
    if found.signing_secret:
        warn_shown_once("signing secret")


for command in (callbacks, rotate_signing_secret, subscriptions):
    app_group.add_command(command)
