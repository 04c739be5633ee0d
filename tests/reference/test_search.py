"""The search of the documentation: the first hit of each query, and its forms as a page and as JSON."""

from html import escape

import pytest

from stoa.reference.page import document
from stoa.reference.routes import index
from stoa.reference.search import Entry, Index, excerpt, stem
from stoa.reference.search_words import SYNONYMS, TOPICS
from tests.reference.everyday_queries import EVERYDAY
from tests.reference.reading import read
from tests.reference.unseen_queries import UNSEEN, WRITTEN_LAST, WRITTEN_LATER
from tests.support.shops import Shop

GUIDES = "/docs/guides"
FIRST = {
    # Error codes and statuses
    "sku_taken": "/problems/sku_taken",
    "429": "/problems/rate_limited",
    "rate_limited": "/problems/rate_limited",
    "insufficient_stock": "/problems/insufficient_stock",
    "insufficient stock": "/problems/insufficient_stock",
    "webhook_exists": "/problems/webhook_exists",
    "428": "/problems/precondition_required",
    "412": "/problems/version_conflict",
    "invalid_money": "/problems/invalid_money",
    "option_mismatch": "/problems/option_mismatch",
    "last_variant": "/problems/last_variant",
    # Topics of guides
    "rate limit": f"{GUIDES}/errors#rate-limits",
    "rate limits": f"{GUIDES}/errors#rate-limits",
    "throttling": f"{GUIDES}/errors#rate-limits",
    "retry": f"{GUIDES}/errors#retries",
    "retries": f"{GUIDES}/errors#retries",
    "retry policy": f"{GUIDES}/webhooks#retry-policy",
    "Idempotency-Key": f"{GUIDES}/idempotency",
    "idempotency": f"{GUIDES}/idempotency",
    "idempotancy": f"{GUIDES}/idempotency",
    "webhook signature": f"{GUIDES}/webhooks#verify-signatures",
    "verify signature": f"{GUIDES}/webhooks#verify-signatures",
    "hmac": f"{GUIDES}/webhooks#verify-signatures",
    "rotate secret": f"{GUIDES}/webhooks#rotate-the-secret",
    "how do I test my receiver": f"{GUIDES}/webhooks#test-your-receiver",
    "test my receiver": f"{GUIDES}/webhooks#test-your-receiver",
    "test webhook receiver": f"{GUIDES}/webhooks#test-your-receiver",
    "pagination": f"{GUIDES}/pagination-and-sync#pagination",
    "sync": f"{GUIDES}/pagination-and-sync#keep-a-copy-in-sync",
    "login": f"{GUIDES}/authentication",
    "filters": f"{GUIDES}/pagination-and-sync#filters",
    "authentication": f"{GUIDES}/authentication",
    "get a token": f"{GUIDES}/authentication#get-a-token",
    "how do I get a token": f"{GUIDES}/authentication#get-a-token",
    "scopes": f"{GUIDES}/authentication#scopes",
    "quickstart": f"{GUIDES}/quickstart",
    "build an app": f"{GUIDES}/build-an-app",
    "python sdk": f"{GUIDES}/python-sdk",
    "versioning": f"{GUIDES}/versioning",
    "deprecation": f"{GUIDES}/versioning#deprecation",
    "csv columns": f"{GUIDES}/imports#csv-columns",
    "duplicate orders": f"{GUIDES}/duplicates",
    "gdpr": f"{GUIDES}/customers#erase-a-customer",
    "erase a customer": f"{GUIDES}/customers#erase-a-customer",
    "stock": f"{GUIDES}/inventory",
    "metadata": f"{GUIDES}/customers#metadata",
    "errors": f"{GUIDES}/errors",
    "ledger": f"{GUIDES}/inventory#ledger",
    "changelog": "/docs/changelog",
    # Headers
    "If-Match": f"{GUIDES}/products#versions-and-conflicts",
    "If-None-Match": "/docs/products/get_product#parameter-If-None-Match",
    "Retry-After": f"{GUIDES}/errors#rate-limits",
    "webhook-signature": f"{GUIDES}/webhooks#verify-signatures",
    "X-Request-Id": f"{GUIDES}/errors",
    # Operations
    "create product": "/docs/products/create_product",
    "create_order": "/docs/orders/create_order",
    "list orders": "/docs/orders/list_orders",
    "POST /webhooks": "/docs/webhooks/create_webhook",
    "refund an order": "/docs/orders/refund_order",
    "ship an order": "/docs/orders/ship_order",
    "take a payment": "/docs/orders/take_payment",
    "adjust_inventory": "/docs/products/adjust_inventory",
    "adjust stock": "/docs/products/adjust_inventory",
    # Events
    "order.created": "/docs/events/order.created",
    "product.low_stock": "/docs/events/product.low_stock",
    "webhook.disabled": "/docs/events/webhook.disabled",
    "event catalog": "/docs/events",
    # Fields, parameters and scopes
    "low_stock_threshold": "/docs/products#Variant.low_stock_threshold",
    "compare_at_price": "/docs/products#Product.compare_at_price",
    "Product.slug": "/docs/products#Product.slug",
    "secret_expires_at": "/docs/webhooks#Webhook.secret_expires_at",
    "allowed_transitions": "/docs/orders#Order.allowed_transitions",
    "accepts_marketing": "/docs/customers#Customer.accepts_marketing",
    "next_cursor": "/docs/products#PageMeta.next_cursor",
    "include_deleted": "/docs/products/list_products#parameter-include_deleted",
    "inventory:write": "/docs#scopes",
    "orders:read": "/docs#scopes",
}


def addresses(query: str) -> list[str]:
    return [hit.address for hit in index().search(query)]


def test_there_are_sixty_queries() -> None:
    assert len(FIRST) >= 60


@pytest.mark.parametrize(("query", "first"), FIRST.items())
def test_the_right_page_is_the_first_hit(query: str, first: str) -> None:
    assert addresses(query)[:1] == [first], addresses(query)[:4]


@pytest.mark.parametrize(
    "queries", [EVERYDAY, UNSEEN, WRITTEN_LATER, WRITTEN_LAST], ids=["everyday", "unseen", "later", "last"]
)
def test_everyday_queries_find_their_page_among_the_first_three(queries: list[tuple[str, set[str]]]) -> None:
    assert len(queries) == 60
    assert len({query for query, _ in queries}) == 60
    missed = {query: addresses(query)[:3] for query, pages in queries if pages.isdisjoint(_pages(query)[:3])}
    assert len(missed) <= 5, missed


def _pages(query: str) -> list[str]:
    """The names of the pages that a query finds: of a guide, an operation, an event or an error code."""
    return [address.partition("#")[0].rpartition("/")[2] for address in addresses(query)]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("idempotencey", "idempotency"),
        ("pagnation", "pagination-and-sync"),
        ("webook", "webhooks"),
        ("refnd", "refunds-returns-fulfillments"),
        ("authentification", "authentication"),
        ("custmer", "customers"),
        ("inventry", "inventory"),
    ],
)
def test_a_misspelled_word_finds_its_guide_first(query: str, page: str) -> None:
    first = addresses(query)[0]
    assert first.partition("#")[0] == f"{GUIDES}/{page}"


def test_the_name_of_an_error_an_event_and_an_operation_finds_it_first() -> None:
    """Whatever the guides say about it."""
    named = {code: f"/problems/{code}" for code in document().codes if "_" in code}
    named |= {event.name: event.address for event in document().events}
    named |= document().addresses
    assert {name: found for name, page in named.items() if (found := addresses(name)[0]) != page} == {}


def test_topics_and_synonyms_lead_somewhere() -> None:
    known = {entry.address for entry in index().entries}
    assert set(TOPICS) <= known
    for topics in TOPICS.values():
        assert len(set(topics.split("; "))) == len(topics.split("; "))
    assert {word: others for word, others in SYNONYMS.items() if not any(map(addresses, others.split()))} == {}


def test_a_word_that_is_not_finished_finds_its_page() -> None:
    assert addresses("idempoten")[0] == f"{GUIDES}/idempotency"
    assert addresses("webhook signat")[0] == f"{GUIDES}/webhooks#verify-signatures"


def test_an_entry_with_all_words_comes_before_the_others() -> None:
    found = Index(
        [
            Entry(kind="Guide", title="Orders", address="/one", text="orders orders orders"),
            Entry(kind="Guide", title="Other", address="/both", text="a refund of orders"),
        ]
    ).search("refund orders")
    assert [hit.address for hit in found] == ["/both", "/one"]


@pytest.mark.parametrize(
    "query", ["", " ", "zzzzzzzz", "?!", "ü", "x" * 5000, "a " * 5000, "<script>alert(1)</script>"]
)
def test_a_query_without_sense_is_answered(query: str) -> None:
    assert len(index().search(query)) <= 12


@pytest.mark.parametrize(
    "words", [("retry", "retries", "retried"), ("limit", "limits", "limited"), ("ship", "shipped", "shipping")]
)
def test_the_forms_of_a_word_are_one_word(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_an_excerpt_shows_and_marks_the_words_of_the_query() -> None:
    text = "Nothing here. " * 30 + "The signature covers the body. " + "More text. " * 30
    pieces = excerpt(text, ["signature"])
    assert [piece.text for piece in pieces if piece.marked] == ["signature"]
    assert 100 < len("".join(piece.text for piece in pieces)) < 170
    assert "".join(piece.text for piece in excerpt("A short text.", ["nothing"])) == "A short text."


async def test_every_result_leads_to_an_existing_anchor(shop: Shop) -> None:
    texts: dict[str, str] = {}
    for query in (*FIRST, "email", "order", "product", "status", "stock", "webhook", "customer", "version"):
        for address in addresses(query):
            page, _, anchor = address.partition("#")
            if page not in texts:
                answer = await shop.service.get(page)
                assert answer.status_code == 200, page
                texts[page] = answer.text
            assert not anchor or f'id="{anchor}"' in texts[page], address


async def test_the_page_of_results_needs_no_script(shop: Shop) -> None:
    answer = await shop.service.get("/docs/search", params={"q": "sku_taken"})
    root = read(answer.text)
    first = root.by_id("main").all("ol")[0].all("a")[0]
    assert first.attributes["href"] == "/problems/sku_taken"
    assert root.by_id("main").all("form", "search-form")[0].all("input")[0].attributes["value"] == "sku_taken"
    assert "Search the guides" in (await shop.service.get("/docs/search")).text
    assert "Nothing matches" in (await shop.service.get("/docs/search", params={"q": "zzzzzzzz"})).text


async def test_the_box_gets_the_same_results_as_json(shop: Shop) -> None:
    answer = await shop.service.get("/docs/search.json", params={"q": "  webhook   signature "})
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body["query"] == "webhook signature"
    assert body["results"][0]["address"] == f"{GUIDES}/webhooks#verify-signatures"
    assert {"text", "marked"} == set(body["results"][0]["excerpt"][0])


@pytest.mark.parametrize(
    "query",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</title><script>x</script>", "{{7*7}}", "%00"],
)
async def test_a_query_is_never_markup(shop: Shop, query: str) -> None:
    answer = await shop.service.get("/docs/search", params={"q": query})
    assert answer.status_code == 200
    root = read(answer.text)
    assert all(each.attributes["src"].startswith("/docs/assets/") for each in root.all("script"))
    assert not root.all("img")
    assert query not in answer.text or query == escape(query)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    suggested = await shop.service.get("/docs/search.json", params={"q": query})
    assert suggested.headers["content-type"] == "application/json"
    assert suggested.headers["x-content-type-options"] == "nosniff"
