"""`stoa listen`: reads the event feed of a store over HTTP and forwards each event, signed, to a URL on this machine."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec

from stoa.access.console import Console, Refused

PAGE, WAIT_S = 100, 20
FORWARD_TIMEOUT_S = 30.0
FRESH_S = 60.0  # receivers refuse signatures that are a few minutes old
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.5, 10.0
MIN_RECONNECT_S, MAX_RECONNECT_S = 0.2, 2.0  # between attempts to reach the local program
VARIABLES = ("STOA_BASE_URL", "STOA_AUTH_URL", "STOA_CLIENT_ID", "STOA_CLIENT_SECRET")


class Resource(msgspec.Struct):
    type: str
    id: int


class Item(msgspec.Struct):
    """One event of the feed; its payload keeps the signed bytes."""

    sequence: int
    event_id: str
    event_type: str
    resource: Resource
    payload: msgspec.Raw = msgspec.Raw()
    headers: dict[str, str] = {}
    pulled_at: float = 0.0  # by this machine's clock


class Page(msgspec.Struct):
    data: list[Item]


class Forwarded(msgspec.Struct):
    """The outcome of forwarding one event."""

    time: str
    sequence: int
    event_id: str
    type: str
    resource: str
    status: int | None
    ms: int
    error: str | None


class Store:
    """The API of one store, called as an app; calls are retried while the service is down."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._auth_url = variables["STOA_AUTH_URL"]
        self._credentials = (variables["STOA_CLIENT_ID"], variables["STOA_CLIENT_SECRET"])
        base = variables["STOA_BASE_URL"].rstrip("/") + "/api/v3/app"
        self._http = httpx.Client(base_url=base, timeout=httpx.Timeout(10.0, read=WAIT_S + 15.0))
        self._token = ""
        self.close = self._http.close

    def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Make a call and retry it until the service responds; a refusal ends the command."""
        pause = MIN_BACKOFF_S
        while True:
            try:
                response = self._send(method, path, **given)
            except httpx.TransportError as error:
                wait, why = pause, type(error).__name__
            else:
                if response.status_code < 500 and response.status_code != 429:
                    _check(response)
                    return response
                wait, why = max(pause, _retry_after(response)), str(response.status_code)
            if pause == MIN_BACKOFF_S:
                click.echo(f"The service does not respond ({why}); retrying ...", err=True)
            time.sleep(wait)
            pause = min(MAX_BACKOFF_S, pause * 2)

    def _send(self, method: str, path: str, *, retry: bool = True, **given: Any) -> httpx.Response:
        if not self._token:
            granted = self._http.post(self._auth_url, auth=self._credentials, data={"grant_type": "client_credentials"})
            if granted.status_code >= 500 or granted.status_code == 429:
                return granted
            if granted.status_code != 200:
                raise Refused(f"{self._auth_url} issued no token: {_describe(granted)}")
            self._token = granted.json()["access_token"]
        response = self._http.request(method, path, headers={"authorization": f"Bearer {self._token}"}, **given)
        if response.status_code == 401 and retry:
            self._token = ""  # the token has expired
            return self._send(method, path, retry=False, **given)
        return response


def _check(response: httpx.Response) -> None:
    if response.status_code == 404:
        raise Refused("the store or the subscription does not exist any more; check STOA_BASE_URL and start again")
    if response.status_code >= 400:
        raise Refused(_describe(response))


def _describe(response: httpx.Response) -> str:
    try:
        problem: Any = response.json()
        faults = "; ".join(f"{fault['pointer']} {fault['detail']}" for fault in problem.get("errors", []))
        return f"{problem.get('detail') or problem.get('error_description')}{f' ({faults})' if faults else ''}"
    except (ValueError, AttributeError):
        return f"{response.status_code} from {response.request.url.host}"


def _retry_after(response: httpx.Response) -> float:
    seconds = response.headers.get("retry-after", "")
    return min(60.0, float(seconds)) if seconds.isdigit() else 0.0


def variables_from(given: Mapping[str, str | None], demo: Path, names: Sequence[str] = VARIABLES) -> dict[str, str]:
    """The connection settings: from options, else from the environment, else from the demo on this machine."""
    file: dict[str, str] = {}
    if demo.is_file():
        pairs = (line.removeprefix("export ").partition("=") for line in demo.read_text().splitlines())
        file = {name: value for name, _, value in pairs}
    found = {name: given.get(name) or os.environ.get(name) or file.get(name, "") for name in names}
    missing = [name for name, value in found.items() if not value]
    if missing:
        raise Refused(f"{', '.join(missing)} must be set, or passed as options; `make demo` prints all of them")
    return found


def subscribe(store: Store, name: str, events: list[str]) -> tuple[dict[str, Any], bool]:
    """Find or create the subscription of this name without a URL; returns it and whether it is new."""
    known = store.call("GET", "/webhooks", params={"limit": 250}).json()["data"]
    for webhook in known:
        if webhook["name"] == name and webhook["url"] is None:
            if sorted(webhook["events"]) != sorted(events):
                store.call("PATCH", f"/webhooks/{webhook['id']}", json={"events": events})
            return webhook, False
    return store.call("POST", "/webhooks", json={"name": name, "events": events}).json()["data"], True


def follow(store: Store, webhook_id: int, after: int) -> Iterator[Item]:
    """Yield every event after a sequence, in order and without end, each with a fresh signature."""
    while True:
        for item in _pull(store, webhook_id, after, PAGE, WAIT_S):
            after = item.sequence
            yield item


def _pull(store: Store, webhook_id: int, after: int, limit: int, wait_s: int) -> list[Item]:
    query = {"after": after, "wait": wait_s, "limit": limit, "include": "payload"}
    response = store.call("GET", f"/webhooks/{webhook_id}/deliveries", params=query)
    items = msgspec.json.decode(response.content, type=Page).data
    for item in items:
        item.pulled_at = time.monotonic()
    return items


def with_fresh_signature(store: Store, webhook_id: int, item: Item) -> Item:
    """The same event, read again if its signature is getting old."""
    if time.monotonic() - item.pulled_at < FRESH_S:
        return item
    return next(iter(_pull(store, webhook_id, item.sequence - 1, 1, 0)), item)


def forward(http: httpx.Client, url: str, item: Item, fresh: Callable[[Item], Item]) -> Forwarded:
    """Forward one event. An unreachable program is waited for; after any response the next event follows."""
    interrupted, pause = False, MIN_RECONNECT_S
    while True:
        item = fresh(item)
        status, error, started = None, None if item.headers else "the event has expired", time.perf_counter()
        try:
            if item.headers:
                status = http.post(url, content=bytes(item.payload), headers=item.headers).status_code
            break
        except (httpx.ConnectError, httpx.ConnectTimeout) as trouble:
            if pause == MIN_RECONNECT_S:
                why = str(trouble) or type(trouble).__name__
                click.echo(f"{url} is unreachable ({why}); event {item.sequence} waits ...", err=True)
            time.sleep(pause)
            pause = min(MAX_RECONNECT_S, pause * 2)
        except httpx.HTTPError as trouble:
            error = str(trouble) or type(trouble).__name__
            # A dropped connection may be a restart, so retry once; after a timeout the event may have been processed.
            if interrupted or isinstance(trouble, httpx.TimeoutException):
                break
            interrupted = True
    return Forwarded(
        time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        sequence=item.sequence,
        event_id=item.event_id,
        type=item.event_type,
        resource=f"{item.resource.type} {item.resource.id}",
        status=status,
        ms=round((time.perf_counter() - started) * 1000),
        error=error,
    )


def _line(done: Forwarded) -> str:
    local = datetime.now().astimezone().strftime("%H:%M:%S")
    outcome = f"{done.status}" if done.error is None else f"failed: {done.error}"
    return f"{local}  {done.sequence:>6}  {done.type:<32} {done.resource:<18} {outcome}  {done.ms} ms"


@click.command()
@click.option(
    "--forward-to", "url", required=True, help="The URL to post each event to, such as http://localhost:3000/hook."
)
@click.option("--events", default="*", show_default=True, help="Event names or wildcards, separated by commas.")
@click.option(
    "--name", default=lambda: f"stoa listen on {socket.gethostname()}"[:100], help="The name of the subscription."
)
@click.option(
    "--after", type=int, help="Start after this sequence, which each line shows; by default only new events are sent."
)
@click.option("--new-secret", is_flag=True, help="Create a new secret for an existing subscription and print it.")
@click.option("--delete", "forget", is_flag=True, help="Delete the subscription on exit.")
@click.option("--base-url", help="The base URL of the store; defaults to STOA_BASE_URL.")
@click.option("--auth-url", help="The token endpoint; defaults to STOA_AUTH_URL.")
@click.option("--client-id", help="The client id of the app; defaults to STOA_CLIENT_ID.")
@click.option("--client-secret", help="The client secret; prefer STOA_CLIENT_SECRET.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each event.")
@click.pass_obj
def listen(
    console: Console,
    url: str,
    events: str,
    name: str,
    after: int | None,
    *,
    new_secret: bool,
    forget: bool,
    as_json: bool,
    **options: str | None,
) -> None:
    """Forward the events of a store to a URL on this machine, signed like a webhook.

    Your machine need not be reachable from outside, because the command reads the event feed. While the URL is unreachable,
    events wait, so you can restart your program. The subscription and its secret remain when the command ends; the next run
    finds the subscription by its name.

    \b
    Examples:
      stoa listen --forward-to http://localhost:3000/hook
      stoa listen --forward-to http://localhost:3000/hook --events order.*,product.updated --json
      stoa listen --forward-to http://localhost:3000/hook --after 41
    """
    if not url.startswith(("http://", "https://")):
        raise Refused("--forward-to must begin with http:// or https://")
    given = {f"STOA_{option.upper()}": value for option, value in options.items()}
    store = Store(variables_from(given, console.settings.data_dir / "demo.env"))
    webhook_id, last = 0, 0
    try:
        webhook, new = subscribe(store, name, [word.strip() for word in events.split(",") if word.strip()])
        webhook_id = webhook["id"]
        if new_secret and not new:
            rotation = {"grace_hours": 0, "force": True}
            webhook |= store.call("POST", f"/webhooks/{webhook_id}/rotate-secret", json=rotation).json()["data"]
        _introduce(webhook, url)
        # A proxy cannot reach an address of this machine.
        with httpx.Client(timeout=FORWARD_TIMEOUT_S, trust_env=False) as http:
            for item in follow(store, webhook_id, webhook["last_sequence"] if after is None else after):
                done = forward(http, url, item, partial(with_fresh_signature, store, webhook_id))
                last = done.sequence
                click.echo(msgspec.json.encode(done).decode() if as_json else _line(done))
                sys.stdout.flush()
    except KeyboardInterrupt:
        hint = f" Use --after {last} to continue from here." if last and not forget else ""
        click.echo(f"Stopped.{hint}", err=True)
    finally:
        if forget and webhook_id:
            store.call("DELETE", f"/webhooks/{webhook_id}")
        store.close()


def _introduce(webhook: Mapping[str, Any], url: str) -> None:
    """Print to stderr, so that stdout contains only events."""
    click.echo(f"Subscription {webhook['id']} forwards each event to {url}. Stop with Ctrl-C.", err=True)
    if "secret" in webhook:
        click.echo(f"Signing secret, shown only once: {webhook['secret']}", err=True)
    else:
        click.echo(
            "The signing secret was shown when the subscription was created; --new-secret creates another.", err=True
        )


COMMANDS = (listen,)
