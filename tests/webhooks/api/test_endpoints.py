"""The endpoints with which an app creates, lists, changes and deletes its own subscriptions."""

import asyncio
import base64
import re
from typing import Any

import pytest

from stoa.access.encryption import Cipher
from stoa.api import EVENTS
from stoa.settings import secret_key
from tests.support.shops import Shop, api_client, token_for

HOOK: dict[str, Any] = {"url": "https://hooks.example.com/stoa", "events": ["product.*"]}


async def subscribe(shop: Shop, **given: Any) -> dict[str, Any]:
    answer = await shop.client.post("/webhooks", json=HOOK | given)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def refusal(shop: Shop, **given: Any) -> tuple[int, str, list[tuple[str, str]]]:
    answer = await shop.client.post("/webhooks", json=HOOK | given)
    problem = answer.json()
    faults = [(fault["pointer"], fault["code"]) for fault in problem.get("errors", [])]
    return answer.status_code, problem["code"], faults


# --- creating ---------------------------------------------------------------------------------------------------------


async def test_a_new_subscription_is_returned_in_full_and_its_secret_only_once(shop: Shop) -> None:
    answer = await shop.client.post("/webhooks", json=HOOK)
    made = answer.json()["data"]
    assert answer.headers["location"].endswith(f"/webhooks/{made['id']}")
    assert re.fullmatch(r"whsec_[A-Za-z0-9]{44}", made["secret"])
    assert len(base64.b64decode(made["secret"].removeprefix("whsec_"))) == 33
    secret = made.pop("secret")
    again = await shop.client.get(f"/webhooks/{made['id']}")
    assert again.json()["data"] == made
    assert secret not in again.text
    assert (made["status"], made["health"], made["pending"], made["last_sequence"]) == ("active", "healthy", 0, 0)
    assert made["breaker"] == {"state": "closed", "failures": 0, "next_probe_at": None}
    assert made["stats_24h"] == {"succeeded": 0, "failed": 0, "attempts": 0}


async def test_secret_and_header_values_are_encrypted_in_the_database(shop: Shop) -> None:
    made = await subscribe(shop, headers={"X-Key": "canary-4711"})
    rows = await shop.db.fetch("SELECT w::text FROM webhooks w WHERE store_id = $1", shop.store_id)
    assert made["secret"] not in rows[0][0]
    stored = await shop.db.fetch(
        "SELECT sealed_secret, sealed_headers FROM webhooks WHERE store_id = $1", shop.store_id
    )
    assert made["secret"].encode() not in stored[0][0]
    assert b"canary-4711" not in stored[0][1]


async def test_a_replay_returns_the_same_secret_although_the_stored_response_is_encrypted(shop: Shop) -> None:
    key = {"idempotency-key": "subscribe-1"}
    first = await shop.client.post("/webhooks", json=HOOK, headers=key)
    second = await shop.client.post("/webhooks", json=HOOK, headers=key)
    assert second.headers["idempotent-replayed"] == "true"
    assert (second.status_code, second.content) == (201, first.content)
    stored = await shop.db.fetch("SELECT body FROM idempotency_keys WHERE store_id = $1", shop.store_id)
    assert first.json()["data"]["secret"].encode() not in stored[0][0]


async def test_header_values_are_never_returned(shop: Shop) -> None:
    made = await subscribe(shop, headers={"X-Key": "canary-4711", "Authorization": "Bearer canary-4711"})
    listed = await shop.client.get("/webhooks")
    assert made["headers"] == {"X-Key": "********", "Authorization": "********"}
    assert "canary" not in listed.text


async def test_a_second_subscription_with_the_same_url_and_events_is_refused(shop: Shop) -> None:
    made = await subscribe(shop, events=["product.created", "product.deleted"])
    answer = await shop.client.post("/webhooks", json=HOOK | {"events": ["product.deleted", "product.created"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "webhook_exists")
    assert answer.json()["existing_id"] == made["id"]
    assert (await subscribe(shop, events=["product.deleted"]))["id"] != made["id"]


async def test_only_one_of_many_concurrent_identical_subscriptions_is_created(shop: Shop) -> None:
    answers = await asyncio.gather(*(shop.client.post("/webhooks", json=HOOK) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


async def test_a_deleted_subscription_can_be_created_again(shop: Shop) -> None:
    made = await subscribe(shop)
    assert (await shop.client.delete(f"/webhooks/{made['id']}")).status_code == 204
    assert (await subscribe(shop))["id"] != made["id"]


async def test_pull_only_subscriptions_are_distinguished_by_name(shop: Shop) -> None:
    made = await subscribe(shop, url=None, name="one")
    assert made["url"] is None
    assert (await refusal(shop, url=None, name="one"))[:2] == (409, "webhook_exists")
    await subscribe(shop, url=None, name="two")


async def test_an_app_has_at_most_a_hundred_subscriptions_on_a_store(shop: Shop) -> None:
    for number in range(100):
        await subscribe(shop, url=None, name=str(number))
    assert (await refusal(shop))[:2] == (409, "too_many_webhooks")


async def test_an_unknown_event_is_refused_with_the_closest_match(shop: Shop) -> None:
    answer = await shop.client.post("/webhooks", json=HOOK | {"events": ["product.*", "product.creatd", "shop.*"]})
    faults = {fault["pointer"]: fault for fault in answer.json()["errors"]}
    assert answer.status_code == 422
    assert {fault["code"] for fault in faults.values()} == {"unknown_event"}
    assert faults["/events/1"]["meta"] == {"did_you_mean": "product.created"}
    assert set(faults) == {"/events/1", "/events/2"}


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ({"events": []}, [("/events", "out_of_range")]),
        ({"events": ["product.*", "product.*"]}, [("/events/1", "invalid_format")]),
        ({"url": "ftp://example.com"}, [("/url", "invalid_format")]),
        ({"url": "http://hooks.example.com/"}, [("/url", "url_not_allowed")]),
        ({"url": "https://127.0.0.1/"}, [("/url", "url_not_allowed")]),
        ({"url": "https://[::1]/"}, [("/url", "url_not_allowed")]),
        ({"url": "https://10.1.2.3/"}, [("/url", "url_not_allowed")]),
        ({"url": "https://169.254.169.254/latest"}, [("/url", "url_not_allowed")]),
        ({"url": "https://0x7f.1/"}, [("/url", "url_not_allowed")]),
        ({"url": "https://localhost/"}, [("/url", "url_not_allowed")]),
        ({"url": "https://me:pw@hooks.example.com/"}, [("/url", "url_not_allowed")]),
        ({"filter": {"staus": "active"}}, [("/filter/staus", "unknown_field")]),
        ({"filter": {"price[gte]": "1.999"}}, [("/filter/price[gte]", "invalid_money")]),
        ({"fields": ["id", "nonsense"]}, [("/fields/1", "unknown_field")]),
        ({"headers": {"Host": "x"}}, [("/headers/Host", "invalid_format")]),
        ({"headers": {"Accept": "text/plain"}}, [("/headers/Accept", "invalid_format")]),
        ({"headers": {"accept-encoding": "gzip"}}, [("/headers/accept-encoding", "invalid_format")]),
        ({"headers": {"content-length": "1"}}, [("/headers/content-length", "invalid_format")]),
        ({"headers": {"Webhook-Id": "x"}}, [("/headers/Webhook-Id", "invalid_format")]),
        ({"headers": {"Transfer-Encoding": "chunked"}}, [("/headers/Transfer-Encoding", "invalid_format")]),
        ({"headers": {"X-A": "a", "x-a": "b"}}, [("/headers/x-a", "invalid_format")]),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, [("/headers/X-A", "invalid_format")]),
        ({"headers": {"X A": "a"}}, [("/headers/X A", "invalid_format")]),
        ({"max_in_flight": 0}, [("/max_in_flight", "out_of_range")]),
        ({"rate_per_s": 0}, [("/rate_per_s", "out_of_range")]),
        ({"status": "disabled"}, [("/status", "invalid_format")]),
        ({"secret": "mine"}, [("/secret", "read_only_field")]),
    ],
)
async def test_an_invalid_subscription_is_refused_with_a_pointer_to_the_field(
    shop: Shop, given: dict[str, Any], faults: list[tuple[str, str]]
) -> None:
    assert await refusal(shop, **given) == (422, "validation_failed", faults)


async def test_all_faults_of_a_subscription_are_reported_together(shop: Shop) -> None:
    _, _, faults = await refusal(
        shop, url="https://10.0.0.1/", events=["product.*", "x"], headers={"Host": "a"}, filter={"nothing": 1}
    )
    assert [pointer for pointer, _ in faults] == ["/events/1", "/filter/nothing", "/headers/Host", "/url"]


async def test_a_named_event_requires_its_scope(shop: Shop) -> None:
    narrow = await shop.client_with(["webhooks:write", "inventory:read"])
    answer = await narrow.post("/webhooks", json=HOOK | {"events": ["product.low_stock", "product.created"]})
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
    assert answer.json()["required_scope"] == "products:read"


async def test_a_wildcard_requires_no_scope_of_the_events(shop: Shop) -> None:
    narrow = await shop.client_with(["webhooks:write"])
    assert (await narrow.post("/webhooks", json=HOOK | {"events": ["*"]})).status_code == 201


async def test_amounts_in_a_filter_are_normalized_to_the_currency_of_the_store(shop: Shop) -> None:
    made = await subscribe(shop, filter={"price[gte]": 100, "status": "active,draft"})
    assert made["filter"] == {"price[gte]": "100.00", "status": "active,draft"}


# --- listing ----------------------------------------------------------------------------------------------------------


async def test_the_list_includes_every_event_with_scope_schema_and_sample(shop: Shop) -> None:
    narrow = await shop.client_with(["webhooks:read", "products:read"])
    available = (await narrow.get("/webhooks")).json()["meta"]["available_events"]
    assert [each["name"] for each in available] == [name for name, event in EVENTS.items() if not event.app_only]
    by_name = {each["name"]: each for each in available}
    assert by_name["product.created"]["granted"] is True
    assert by_name["product.low_stock"] | {"sample": 0} == {
        "name": "product.low_stock",
        "description": "The available stock of a tracked variant fell to its low-stock threshold or below.",
        "scope": "inventory:read",
        "granted": False,
        "schema": "/schemas/events/product.low_stock",
        "sample": 0,
    }
    assert by_name["product.created"]["sample"]["data"]["name"] == "Linen Shirt"
    assert (await shop.service.get(by_name["product.created"]["schema"])).status_code == 200


async def test_another_app_of_the_same_store_cannot_see_or_change_a_subscription(shop: Shop) -> None:
    made = await subscribe(shop)
    other = await shop.client_with(["webhooks:write", "products:read"])
    assert (await other.get("/webhooks")).json()["meta"]["total"] == 0
    path = f"/webhooks/{made['id']}"
    responses = [
        await other.get(path),
        await other.patch(path, json={"name": "mine"}),
        await other.delete(path),
        await other.post(f"{path}/test"),
        await other.post(f"{path}/rotate-secret"),
        await other.get(f"{path}/deliveries"),
        await other.get(f"{path}/deliveries", params={"after": 0, "wait": 1}),
        await other.post(f"{path}/redeliver", json={"status": "failed"}),
    ]
    assert {answer.status_code for answer in responses} == {404}
    assert (await shop.client.get(path)).json()["data"]["name"] is None


async def test_the_list_supports_pages_and_filters(shop: Shop) -> None:
    ids = [(await subscribe(shop, url=f"https://hooks.example.com/{n}"))["id"] for n in range(3)]
    await shop.client.patch(f"/webhooks/{ids[1]}", json={"status": "paused"})
    first = (await shop.client.get("/webhooks", params={"limit": 2})).json()
    rest = (await shop.client.get("/webhooks", params={"cursor": first["meta"]["next_cursor"]})).json()
    assert [each["id"] for each in first["data"] + rest["data"]] == ids
    assert first["meta"]["total"] == 3
    paused = (await shop.client.get("/webhooks", params={"status": "paused", "fields": "id"})).json()
    assert paused["data"] == [{"id": ids[1]}]
    assert paused["meta"]["total"] == 1


async def test_health_is_derived_from_the_lane(shop: Shop) -> None:
    made = await subscribe(shop)
    lane = "UPDATE lanes SET breaker = $2, failures = $3, hold_until = now() + interval '1 min' WHERE webhook_id = $1"
    await shop.db.execute(lane, made["id"], "closed", 2)
    assert (await shop.client.get(f"/webhooks/{made['id']}")).json()["data"]["health"] == "degraded"
    await shop.db.execute(lane, made["id"], "open", 5)
    seen = (await shop.client.get(f"/webhooks/{made['id']}")).json()["data"]
    assert (seen["health"], seen["breaker"]["state"], seen["breaker"]["failures"]) == ("failing", "open", 5)
    assert seen["breaker"]["next_probe_at"] is not None


async def test_the_24_hour_statistics_add_up_the_last_24_hours(shop: Shop) -> None:
    made = await subscribe(shop)
    for hours, succeeded in ((0, 5), (23, 2), (30, 100)):
        await shop.db.execute(
            "INSERT INTO delivery_hours VALUES ($1, $2, date_trunc('hour', now()) - make_interval(hours => $3), $4, 1, 9, 4, 10)",
            shop.store_id, made["id"], hours, succeeded,
        )  # fmt: skip
    seen = (await shop.client.get(f"/webhooks/{made['id']}")).json()["data"]
    assert seen["stats_24h"] == {"succeeded": 7, "failed": 2, "attempts": 18}


# --- changing ---------------------------------------------------------------------------------------------------------


async def test_a_patch_changes_only_the_given_fields(shop: Shop) -> None:
    made = await subscribe(shop, name="A", filter={"status": "active", "price[gte]": "5"}, headers={"X-Key": "k"})
    patch = {"name": None, "filter": {"price[gte]": None, "name": "Shirt"}, "rate_per_s": 20}
    changed = (await shop.client.patch(f"/webhooks/{made['id']}", json=patch)).json()["data"]
    assert (changed["name"], changed["rate_per_s"], changed["version"]) == (None, 20, 2)
    assert changed["filter"] == {"status": "active", "name": "Shirt"}
    assert changed["headers"] == {"X-Key": "********"}
    untouched = ("url", "events", "payload", "ordering", "skip_own", "status", "created_at", "max_in_flight")
    assert [changed[name] for name in untouched] == [made[name] for name in untouched]


async def test_a_patch_without_an_effect_keeps_the_version(shop: Shop) -> None:
    made = await subscribe(shop, headers={"X-Key": "k"})
    secret = made.pop("secret")
    answer = await shop.client.patch(f"/webhooks/{made['id']}", json=made | {"pending": 99})
    assert (answer.status_code, answer.json()["data"]["version"]) == (200, 1)
    assert secret not in answer.text


async def test_a_masked_header_value_in_a_patch_keeps_the_stored_value(shop: Shop) -> None:
    made = await subscribe(shop, headers={"X-A": "a", "X-B": "b"})
    path = f"/webhooks/{made['id']}"
    changed = await shop.client.patch(path, json={"headers": {"X-A": "********", "X-B": None, "X-C": "c"}})
    assert changed.json()["data"]["headers"] == {"X-A": "********", "X-C": "********"}
    cleared = await shop.client.patch(path, json={"headers": None})
    assert cleared.json()["data"]["headers"] == {}


async def test_a_patch_cannot_leave_more_conditions_or_headers_than_a_subscription_may_have(shop: Shop) -> None:
    headers = {f"X-{n}": "a" for n in range(21)}
    conditions = {f"metadata[k{n}]": "a" for n in range(21)}
    for name, members in (("headers", headers), ("filter", conditions)):
        fault = (f"/{name}", "too_long")
        assert (await refusal(shop, **{name: members}))[2] == [fault]
        *most, (last, value) = members.items()
        made = await subscribe(shop, url=f"https://{name}.example.com/", **{name: dict(most)})
        answer = await shop.client.patch(f"/webhooks/{made['id']}", json={name: {last: value}})
        assert answer.status_code == 422, answer.text
        assert [(each["pointer"], each["code"]) for each in answer.json()["errors"]] == [fault]
        replaced = {name: {most[0][0]: None, last: value}}
        assert (await shop.client.patch(f"/webhooks/{made['id']}", json=replaced)).status_code == 200


async def test_a_header_that_was_stored_before_it_was_reserved_stays(shop: Shop) -> None:
    made = await subscribe(shop, headers={"X-Key": "k"})
    settings, webhook_id = shop.application.settings, made["id"]
    place = ("webhooks", "headers", shop.store_id, webhook_id)
    sealed = Cipher(secret_key(settings)).encrypt('{"X-Key":"k","Accept":"text/plain"}', *place)
    store = "UPDATE webhooks SET header_names = '{X-Key,Accept}', sealed_headers = $3 WHERE store_id = $1 AND id = $2"
    await shop.db.execute(store, shop.store_id, webhook_id, sealed)
    changed = await shop.client.patch(f"/webhooks/{webhook_id}", json={"name": "A", "headers": {"X-Other": "b"}})
    assert changed.status_code == 200, changed.text
    assert list(changed.json()["data"]["headers"]) == ["X-Key", "Accept", "X-Other"]


async def test_read_only_fields_cannot_be_changed(shop: Shop) -> None:
    made = await subscribe(shop)
    answer = await shop.client.patch(f"/webhooks/{made['id']}", json={"id": 5, "created_at": made["created_at"]})
    assert [(f["pointer"], f["code"]) for f in answer.json()["errors"]] == [("/id", "read_only_field")]


async def test_a_stale_version_is_refused(shop: Shop) -> None:
    made = await subscribe(shop)
    path = f"/webhooks/{made['id']}"
    await shop.client.patch(path, json={"name": "B"})
    stale = {"if-match": '"1"'}
    for answer in (
        await shop.client.patch(path, headers=stale, json={"name": "C"}),
        await shop.client.delete(path, headers=stale),
    ):
        assert (answer.status_code, answer.json()["current_version"]) == (412, 2)


async def test_a_new_url_is_validated_like_the_first(shop: Shop) -> None:
    made = await subscribe(shop)
    answer = await shop.client.patch(f"/webhooks/{made['id']}", json={"url": "https://192.168.1.1/"})
    assert [(f["pointer"], f["code"]) for f in answer.json()["errors"]] == [("/url", "url_not_allowed")]


async def test_a_patch_that_duplicates_another_subscription_is_refused(shop: Shop) -> None:
    made = await subscribe(shop)
    other = await subscribe(shop, url="https://hooks.example.com/other")
    answer = await shop.client.patch(f"/webhooks/{other['id']}", json={"url": HOOK["url"]})
    assert (answer.status_code, answer.json()["existing_id"]) == (409, made["id"])


async def test_only_one_of_many_concurrent_patches_to_the_same_url_succeeds(shop: Shop) -> None:
    ids = [(await subscribe(shop, url=f"https://hooks.example.com/{n}"))["id"] for n in range(4)]
    changes = (shop.client.patch(f"/webhooks/{each}", json={"url": HOOK["url"]}) for each in ids)
    answers = await asyncio.gather(*changes)
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]


async def test_an_app_that_lost_a_scope_can_still_pause_its_subscription(shop: Shop) -> None:
    made = await subscribe(shop, events=["product.created"])
    reduce_scopes = "UPDATE installations SET scopes = '{webhooks:write}' WHERE store_id = $1 AND app_id = $2"
    await shop.db.execute(reduce_scopes, shop.store_id, shop.app_id)
    token = await token_for(shop.service, shop.client_id, shop.client_secret)
    client = api_client(shop.application, shop.store.handle, token)
    answer = await client.patch(f"/webhooks/{made['id']}", json={"status": "paused"})
    assert (answer.status_code, answer.json()["data"]["status"]) == (200, "paused")


async def skip_before(shop: Shop, webhook_id: int) -> Any:
    rows = await shop.db.fetch("SELECT skip_before, now() FROM webhooks WHERE id = $1 AND store_id = $2",
                               webhook_id, shop.store_id)  # fmt: skip
    return rows[0][0]


async def test_resuming_without_options_keeps_pending_deliveries(shop: Shop) -> None:
    made = await subscribe(shop)
    path = f"/webhooks/{made['id']}"
    assert (await shop.client.patch(path, json={"status": "paused"})).json()["data"]["status"] == "paused"
    answer = await shop.client.patch(path, json={"status": "active"})
    assert answer.json()["data"]["status"] == "active"
    assert await skip_before(shop, made["id"]) is None


async def test_resuming_can_skip_deliveries_before_now_or_before_a_time(shop: Shop) -> None:
    made = await subscribe(shop)
    path = f"/webhooks/{made['id']}"
    since = {"since": "2026-03-14T09:00:00+01:00"}
    answer = await shop.client.patch(path, json={"status": "active", "resume": since})
    assert answer.status_code == 200
    assert (await skip_before(shop, made["id"])).isoformat() == "2026-03-14T08:00:00+00:00"
    await shop.client.patch(path, json={"status": "active", "resume": "now"})
    assert (await skip_before(shop, made["id"])).isoformat() > made["created_at"]


@pytest.mark.parametrize("given", [{}, {"resume": "all"}], ids=["without options", "all"])
async def test_resuming_again_sends_also_what_an_earlier_resume_skips(shop: Shop, given: dict[str, Any]) -> None:
    made = await subscribe(shop)
    path = f"/webhooks/{made['id']}"
    for patch in ({"status": "paused"}, {"status": "active", "resume": "now"}, {"name": "A", "status": "active"}):
        assert (await shop.client.patch(path, json=patch)).status_code == 200
    assert await skip_before(shop, made["id"]) is not None, "it was active already"
    await shop.client.patch(path, json={"status": "paused"})
    await shop.client.patch(path, json={"status": "active", **given})
    assert await skip_before(shop, made["id"]) is None


async def test_resuming_since_a_time_in_the_future_skips_no_later_event(shop: Shop) -> None:
    made = await subscribe(shop)
    path = f"/webhooks/{made['id']}"
    since = {"since": "2099-03-14T09:00:00Z"}
    assert (await shop.client.patch(path, json={"status": "active", "resume": since})).status_code == 200
    [[in_future]] = await shop.db.fetch(
        "SELECT skip_before > now() FROM webhooks WHERE store_id = $1 AND id = $2", shop.store_id, made["id"]
    )
    assert in_future is False
    await shop.client.patch(path, json={"status": "active", "resume": "all"})
    assert await skip_before(shop, made["id"]) is None


@pytest.mark.parametrize(
    "patch",
    [
        {"resume": "all"},
        {"status": "paused", "resume": "now"},
        {"status": "active", "resume": "later"},
        {"status": "active", "resume": {"since": "yesterday"}},
        {"status": "active", "resume": {}},
    ],
)
async def test_an_invalid_resume_is_refused(shop: Shop, patch: dict[str, Any]) -> None:
    made = await subscribe(shop)
    answer = await shop.client.patch(f"/webhooks/{made['id']}", json=patch)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"][:7]) == (422, "/resume")


async def test_setting_a_disabled_subscription_to_active_enables_it_again(shop: Shop) -> None:
    made = await subscribe(shop)
    disable = "UPDATE webhooks SET status = 'disabled', disabled_reason = 'gone' WHERE store_id = $1 AND id = $2"
    await shop.db.execute(disable, shop.store_id, made["id"])
    path = f"/webhooks/{made['id']}"
    renamed = (await shop.client.patch(path, json={"name": "still disabled"})).json()["data"]
    assert (renamed["status"], renamed["disabled_reason"]) == ("disabled", "gone")
    reactivated = (await shop.client.patch(path, json={"status": "active"})).json()["data"]
    assert (reactivated["status"], reactivated["disabled_reason"], reactivated["health"]) == ("active", None, "healthy")


# --- deleting, and the audit log -------------------------------------------------------------------------------------


async def test_a_deleted_subscription_is_not_found(shop: Shop) -> None:
    made = await subscribe(shop)
    path = f"/webhooks/{made['id']}"
    assert (await shop.client.delete(path)).status_code == 204
    assert (await shop.client.get(path)).status_code == 404
    assert (await shop.client.delete(path)).status_code == 404
    assert (await shop.client.get("/webhooks")).json()["meta"]["total"] == 0


async def test_every_change_is_in_the_audit_log_without_secrets_or_paths(shop: Shop) -> None:
    made = await subscribe(shop, url="https://hooks.example.com/canary-path?key=canary", headers={"X": "canary-value"})
    path = f"/webhooks/{made['id']}"
    await shop.client.patch(path, json={"status": "paused"})
    rotated = await shop.client.post(f"{path}/rotate-secret")
    await shop.client.delete(path)
    rows = await shop.db.fetch(
        "SELECT action, actor, subject, detail FROM audit_entries WHERE store_id = $1 AND subject LIKE 'webhook:%' ORDER BY position",
        shop.store_id,
    )
    assert [row[0] for row in rows] == [
        "webhook.created",
        "webhook.changed",
        "webhook.secret_rotated",
        "webhook.deleted",
    ]
    assert {(row[1], row[2]) for row in rows} == {(f"app:{shop.app_id}", f"webhook:{made['id']}")}
    details = " ".join(row[3] for row in rows)
    assert "hooks.example.com" in details
    assert "canary" not in details
    assert made["secret"] not in details
    assert rotated.json()["data"]["secret"] not in details
