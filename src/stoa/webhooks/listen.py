"""`stoa listen`: follows a store's events over HTTP and posts each, signed as it was, to an address on this machine."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec

from stoa.access.console import Console, Refused

PAGE, WAIT_S = 100, 20
FORWARD_SECONDS = 30.0
FRESH_S = 60.0  # receivers refuse a signature that is some minutes old
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0
SHORTEST_REST_S, LONGEST_REST_S = 0.2, 2.0  # between two looks whether a program on this machine is up
VARIABLES = ("STOA_BASE_URL", "STOA_AUTH_URL", "STOA_CLIENT_ID", "STOA_CLIENT_SECRET")


class Resource(msgspec.Struct):
    type: str
    id: int


class Item(msgspec.Struct):
    """One event of the feed; its payload stays the very bytes that were signed."""

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
    """What became of one event."""

    time: str
    sequence: int
    event_id: str
    type: str
    resource: str
    status: int | None
    ms: int
    error: str | None


class Store:
    """The API of one store, called as an app; a service that is away is waited for."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._auth_url = variables["STOA_AUTH_URL"]
        self._credentials = (variables["STOA_CLIENT_ID"], variables["STOA_CLIENT_SECRET"])
        base = variables["STOA_BASE_URL"].rstrip("/") + "/api/v3/app"
        self._http = httpx.Client(base_url=base, timeout=httpx.Timeout(10.0, read=WAIT_S + 15.0))
        self._token = ""
        self.close = self._http.close

    def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        """The answer to a call, however often it must be tried; a refusal ends the command."""
        pause = SHORTEST_PAUSE_S
        while True:
            try:
                answer = self._try(method, path, **given)
            except httpx.TransportError as error:
                wait, why = pause, type(error).__name__
            else:
                if answer.status_code < 500 and answer.status_code != 429:
                    _check(answer)
                    return answer
                wait, why = max(pause, _retry_after(answer)), str(answer.status_code)
            if pause == SHORTEST_PAUSE_S:
                click.echo(f"The service does not answer ({why}); trying again ...", err=True)
            time.sleep(wait)
            pause = min(LONGEST_PAUSE_S, pause * 2)

    def _try(self, method: str, path: str, *, again: bool = True, **given: Any) -> httpx.Response:
        if not self._token:
            asked = self._http.post(self._auth_url, auth=self._credentials, data={"grant_type": "client_credentials"})
            if asked.status_code >= 500 or asked.status_code == 429:
                return asked
            if asked.status_code != 200:
                raise Refused(f"no token from {self._auth_url}: {_words(asked)}")
            self._token = asked.json()["access_token"]
        answer = self._http.request(method, path, headers={"authorization": f"Bearer {self._token}"}, **given)
        if answer.status_code == 401 and again:
            self._token = ""  # its hour is over
            return self._try(method, path, again=False, **given)
        return answer


def _check(answer: httpx.Response) -> None:
    if answer.status_code == 404:
        raise Refused("the store or the subscription is gone; check STOA_BASE_URL, then start again")
    if answer.status_code >= 400:
        raise Refused(_words(answer))


def _words(answer: httpx.Response) -> str:
    try:
        told: Any = answer.json()
        faults = "; ".join(f"{fault['pointer']} {fault['detail']}" for fault in told.get("errors", []))
        return f"{told.get('detail') or told.get('error_description')}{f' ({faults})' if faults else ''}"
    except (ValueError, AttributeError):
        return f"{answer.status_code} from {answer.request.url.host}"


def _retry_after(answer: httpx.Response) -> float:
    told = answer.headers.get("retry-after", "")
    return min(60.0, float(told)) if told.isdigit() else 0.0


def variables_from(given: Mapping[str, str | None], kept: Path) -> dict[str, str]:
    """Where and as whom to call: by option, else from the environment, else as the demo on this machine keeps it."""
    file: dict[str, str] = {}
    if kept.is_file():
        pairs = (line.removeprefix("export ").partition("=") for line in kept.read_text().splitlines())
        file = {name: value for name, _, value in pairs}
    found = {name: given.get(name) or os.environ.get(name) or file.get(name, "") for name in VARIABLES}
    missing = [name for name, value in found.items() if not value]
    if missing:
        raise Refused(f"{', '.join(missing)} must be set, or the matching option given; `make demo` prints all of them")
    return found


def subscribe(store: Store, name: str, events: list[str]) -> tuple[dict[str, Any], bool]:
    """The subscription of this name that is only pulled, made if there is none; and whether it is new."""
    known = store.call("GET", "/webhooks", params={"limit": 250}).json()["data"]
    for webhook in known:
        if webhook["name"] == name and webhook["url"] is None:
            if sorted(webhook["events"]) != sorted(events):
                store.call("PATCH", f"/webhooks/{webhook['id']}", json={"events": events})
            return webhook, False
    return store.call("POST", "/webhooks", json={"name": name, "events": events}).json()["data"], True


def follow(store: Store, webhook_id: int, after: int) -> Iterator[Item]:
    """Every event past a sequence, in order, for as long as anybody listens; each with a signature of now."""
    while True:
        for item in _pull(store, webhook_id, after, PAGE, WAIT_S):
            after = item.sequence
            yield item


def _pull(store: Store, webhook_id: int, after: int, limit: int, wait_s: int) -> list[Item]:
    query = {"after": after, "wait": wait_s, "limit": limit, "include": "payload"}
    answer = store.call("GET", f"/webhooks/{webhook_id}/deliveries", params=query)
    items = msgspec.json.decode(answer.content, type=Page).data
    for item in items:
        item.pulled_at = time.monotonic()
    return items


def signed_anew(store: Store, webhook_id: int, item: Item) -> Item:
    """The same event, pulled once more if its signature is getting old."""
    if time.monotonic() - item.pulled_at < FRESH_S:
        return item
    return next(iter(_pull(store, webhook_id, item.sequence - 1, 1, 0)), item)


def forward(http: httpx.Client, url: str, item: Item, fresh: Callable[[Item], Item]) -> Forwarded:
    """Post one event on. A program that is not there is waited for; whatever it answers, the next event comes."""
    broken, rest = False, SHORTEST_REST_S
    while True:
        item = fresh(item)
        status, error, started = None, None if item.headers else "it is no longer kept", time.perf_counter()
        try:
            if item.headers:
                status = http.post(url, content=bytes(item.payload), headers=item.headers).status_code
            break
        except (httpx.ConnectError, httpx.ConnectTimeout) as trouble:
            if rest == SHORTEST_REST_S:
                why = str(trouble) or type(trouble).__name__
                click.echo(f"Nobody is there at {url} ({why}); waiting with event {item.sequence} ...", err=True)
            time.sleep(rest)
            rest = min(LONGEST_REST_S, rest * 2)
        except httpx.HTTPError as trouble:
            error = str(trouble) or type(trouble).__name__
            # Somebody who hung up may just be restarting, and has hardly dealt with it; one who is slow may have.
            if broken or isinstance(trouble, httpx.TimeoutException):
                break
            broken = True
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
    "--forward-to", "url", required=True, help="Where each event is posted, such as http://localhost:3000/hook."
)
@click.option("--events", default="*", show_default=True, help="Events or wildcards, with commas between.")
@click.option("--name", default=lambda: f"stoa listen on {socket.gethostname()}"[:100], help="The subscription's name.")
@click.option("--after", type=int, help="Begin after this sequence, the number in each line; what is new unless given.")
@click.option("--new-secret", is_flag=True, help="Give a known subscription a new secret, and print it.")
@click.option("--delete", "forget", is_flag=True, help="Delete the subscription at the end.")
@click.option("--base-url", help="The store's address; STOA_BASE_URL unless given.")
@click.option("--auth-url", help="The token endpoint; STOA_AUTH_URL unless given.")
@click.option("--client-id", help="The app; STOA_CLIENT_ID unless given.")
@click.option("--client-secret", help="Its secret; better in STOA_CLIENT_SECRET.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each event.")
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
    """Bring a store's events to an address on this machine, signed as a webhook would be.

    Nothing needs to be reachable from outside: the events are pulled. While nobody is at the address they wait, so that a
    program may be restarted. The subscription stays when the command ends, and with it its secret; the next run finds it
    by its name.

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
        # This machine's own address is not for a proxy to find.
        with httpx.Client(timeout=FORWARD_SECONDS, trust_env=False) as http:
            for item in follow(store, webhook_id, webhook["last_sequence"] if after is None else after):
                done = forward(http, url, item, partial(signed_anew, store, webhook_id))
                last = done.sequence
                click.echo(msgspec.json.encode(done).decode() if as_json else _line(done))
                sys.stdout.flush()
    except KeyboardInterrupt:
        onwards = f" --after {last} goes on from here." if last and not forget else ""
        click.echo(f"Stopped.{onwards}", err=True)
    finally:
        if forget and webhook_id:
            store.call("DELETE", f"/webhooks/{webhook_id}")
        store.close()


def _introduce(webhook: Mapping[str, Any], url: str) -> None:
    """Said on stderr, so that it never mixes with what a program reads."""
    click.echo(f"Listening as webhook {webhook['id']}; each event is posted to {url}. Stop with Ctrl-C.", err=True)
    if "secret" in webhook:
        click.echo(f"Its signing secret, shown this once: {webhook['secret']}", err=True)
    else:
        click.echo("Its secret was shown when it was made; --new-secret makes another.", err=True)


COMMANDS = (listen,)
