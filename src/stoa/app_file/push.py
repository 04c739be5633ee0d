"""Applies a file to its app: one transaction with all changes and their audit entries, or none of them."""

import hashlib
from collections.abc import Mapping

import msgspec

from stoa.access import app_keys
from stoa.access.audit import SERVICE
from stoa.access.contract import App
from stoa.access.operator import Operator, find_app, lock_live_app
from stoa.access.operator_queries import LIST_KEYS
from stoa.accounts import ownership
from stoa.accounts.queries import MAY_CHANGE
from stoa.app_file.contract import AppFile, AppFileChanged, Change, ConfirmationRequired, Pushed
from stoa.app_file.differences import differences, key_of, new_scopes
from stoa.app_file.writing import write_file
from stoa.db.fan_out import FanOut, total
from stoa.db.query import Executor
from stoa.rest.checks import validation_failed
from stoa.rest.problems import Fault
from stoa.store_data import definitions
from stoa.store_data.stored_values import CheckTooLong, ViolatedDefinition
from stoa.webhooks import app_callbacks, app_subscriptions
from stoa.webhooks.app_callbacks import InvalidEndpoint

# Development stores of the account grant new scopes immediately, as they do after a change in the portal.
ASKING_STORES = FanOut(
    int,
    f"""SELECT count(*) FROM installations i
         WHERE i.app_id = $1 AND NOT i.scopes @> $2::text[] AND NOT EXISTS (
               SELECT FROM account_stores o
                WHERE o.store_id = i.store_id AND o.account_id = $3 AND o.development AND {MAY_CHANGE})
           AND i.store_id <> ALL ($4::bigint[])""",
    total,
    unbound="an app's developer asks all stores that installed the app",
)


async def registered(db: Executor, app: App) -> AppFile:
    """The app as a file would describe it now."""
    listing = await ownership.listing_of(db, app.id)
    callbacks = await app_callbacks.callbacks_of(db, app.id)
    declared = await app_subscriptions.declared_by(db, app.id)
    keys = {key.kid: msgspec.json.decode(key.jwk, type=dict[str, str]) for key in await LIST_KEYS.all(db, app.id)}
    return AppFile(
        app.name,
        {scope: listing.reasons.get(scope, "") for scope in app.scopes},
        app.client_id,
        listing.homepage,
        callbacks.endpoint_url,
        callbacks.return_urls,
        [each.settings for each in declared if not each.removing],
        [{"kid": kid, **keys[kid]} for kid in sorted(keys)],
        await definitions.definitions_of_app(db, app.id),
    )


def tag_of(file: AppFile) -> str:
    """Changes with the app, so that a difference is applied only to the app with which it was computed."""
    return hashlib.sha256(write_file(file).encode()).hexdigest()[:32]


async def push(
    by: Operator,
    app: str,
    file: AppFile,
    *,
    account_id: int | None,
    dry_run: bool = False,
    confirmed: bool = False,
    seen: str = "",
) -> Pushed:
    """Compare a file with its app, and apply the difference unless this is a dry run.

    The development stores of the account grant new scopes at once. `seen` is the tag of the app that the caller knows.
    """
    unreachable = await _unreachable(by, file)  # before the transaction, because it may be slow
    await _check_metadata(by, app, file)
    stores, asking = await _concerned_stores(by, app, file, account_id)
    async with by.transaction() as joined, joined.db.transaction() as db:
        found = await lock_live_app(db, app)
        _check_owner(file, found)
        before = await registered(db, found)
        if seen and seen != tag_of(before):
            raise AppFileChanged("Somebody changed the app meanwhile. Compare the file again, then retry.")
        changes = differences(before, file, stores=stores, asking=asking)
        faults = [unreachable[key] for key in unreachable if _concerns(changes, key)]
        if faults:
            raise validation_failed(faults)
        if dry_run or not changes:
            return Pushed(found.client_id, applied=False, changes=changes)
        if not confirmed and any(change.consent for change in changes):
            raise ConfirmationRequired(_reasons(changes), changes=changes)
        secret = await _apply(joined, found, before, file, account_id)
        keys = [change.key for change in changes]
        await joined.record(db, SERVICE, "app.file_pushed", f"app:{found.id}", changes=keys)
    return Pushed(found.client_id, applied=True, changes=changes, signing_secret=secret)


async def _concerned_stores(by: Operator, app: str, file: AppFile, account_id: int | None) -> tuple[int, int]:
    """How many stores have installed the app, and how many of them must grant new scopes of the file."""
    found = await find_app(by.everywhere, app)
    new = new_scopes(await registered(by.db, found), file)
    return len(found.stores), await ASKING_STORES.one(by.everywhere, found.id, new, account_id) if new else 0


async def _apply(by: Operator, app: App, before: AppFile, after: AppFile, account_id: int | None) -> str | None:
    """Carry out the changes; returns the signing secret if it is new."""
    listing = (after.name, after.homepage, after.scopes)
    if listing != (before.name, before.homepage, before.scopes):
        await ownership.change_listing(by, account_id, app, *listing)
    secret = None
    if (after.endpoint, after.return_urls) != (before.endpoint, before.return_urls):
        saved = await app_callbacks.save_callbacks(
            by, app.client_id, endpoint_url=after.endpoint, return_urls=after.return_urls
        )
        secret = saved.signing_secret
    old, new = ({each.name: each for each in file.subscriptions} for file in (before, after))
    for name in old.keys() - new.keys():
        await app_subscriptions.remove(by, app.client_id, name)
    for name, body in new.items():
        if old.get(name) != body:
            _, made = await app_subscriptions.save_declaration(by, app.client_id, body)
            secret = secret or made
    had, has = ({each["kid"]: each for each in file.keys} for file in (before, after))
    for kid, jwk in had.items():
        if has.get(kid) != jwk:
            await app_keys.remove_key(by, app.client_id, kid)
    for kid, jwk in has.items():
        if had.get(kid) != jwk:
            await app_keys.add_key(by, app.client_id, msgspec.json.encode(jwk).decode())
    await definitions.save_definitions(by, app.client_id, after.metadata)
    return secret


async def _check_metadata(by: Operator, app: str, file: AppFile) -> None:
    """Refuse new and changed definitions that values of a store violate; before the transaction, because it may be slow."""
    try:
        await definitions.check_definitions(by, app, file.metadata)
    except (ViolatedDefinition, CheckTooLong) as refusal:
        raise validation_failed([Fault("/metadata", "invalid_format", f"is refused: {refusal}")]) from refusal


def _check_owner(file: AppFile, app: App) -> None:
    if file.client_id not in (None, app.client_id):
        detail = f"is the client id of another app; this one has {app.client_id}"
        raise validation_failed([Fault("/client_id", "invalid_format", detail)])


async def _unreachable(by: Operator, file: AppFile) -> Mapping[str, Fault]:
    """The faults of the hosts that the service does not send to, by the key of the change that names them."""
    faults: dict[str, Fault] = {}
    try:
        await app_callbacks.check_endpoint(by, file.endpoint)
    except InvalidEndpoint as refusal:
        faults["endpoint"] = Fault("/endpoint", "url_not_allowed", str(refusal))
    for number, each in enumerate(file.subscriptions):
        if fault := await app_subscriptions.unreachable_host(by, each.url):
            pointer = f"/subscriptions/{number}/url"
            faults[key_of("subscriptions", each.name)] = msgspec.structs.replace(fault, pointer=pointer)
    return faults


def _concerns(changes: list[Change], key: str) -> bool:
    """Whether a change sets the address; what the app has already stays as it is, also if its name is gone."""
    return any(change.key in (key, f"{key}.url") for change in changes)


def _reasons(changes: list[Change]) -> str:
    texts = dict.fromkeys(f"{change.key}: {change.consent}" for change in changes if change.consent)
    return f"{'; '.join(texts)}. Confirm to apply the file."
