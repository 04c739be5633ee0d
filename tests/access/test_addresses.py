"""The store that a URL names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.access.addresses import NO_STORE, ServiceUrls, StoreAddress, named_by_host, named_by_path, named_by_resource

SERVICES = ["https://api.example.com", "localhost:8000"]


@pytest.mark.parametrize(
    "host",
    ["demo.example.com", "DEMO.Example.COM", "demo.example.com:8443", "demo.example.com.", "demo.example.com.:80"],
)
def test_a_host_below_the_store_domain_names_a_handle(host: str) -> None:
    assert named_by_host(host, "Example.com") == StoreAddress(handle="demo")


@pytest.mark.parametrize("host", ["shop.other.org", "SHOP.other.org:443", "shop.other.org."])
def test_any_other_host_may_be_a_custom_host(host: str) -> None:
    assert named_by_host(host, "example.com") == StoreAddress(host="shop.other.org")


@pytest.mark.parametrize("host", ["", ":80", "[::1]:8000", "a b", "-x.org", "x..org", "a\x00b", "é.org", "x" * 300])
def test_an_invalid_host_name_names_no_store(host: str) -> None:
    assert named_by_host(host, "example.com") == NO_STORE


def test_a_nested_subdomain_of_the_store_domain_is_no_handle() -> None:
    assert named_by_host("a.demo.example.com", "example.com") == StoreAddress(host="a.demo.example.com")


def test_a_handle_in_a_path_is_case_sensitive() -> None:
    assert named_by_path("demo") == StoreAddress(handle="demo")
    assert named_by_path("Demo") == NO_STORE
    assert named_by_path("de\x00mo") == NO_STORE


@pytest.mark.parametrize(
    "resource",
    [
        "https://api.example.com/stores/demo/api/v3/app",
        "https://API.example.com:443/stores/demo/api/v3/app",
        "http://localhost:8000/stores/demo/api/v3/app",
        "https://demo.example.com/api/v3/app",
        "http://demo.example.com:8000/api/v3/app",
    ],
)
def test_a_resource_names_a_store_in_path_form_and_in_host_form(resource: str) -> None:
    assert named_by_resource(resource, "example.com", SERVICES) == StoreAddress(handle="demo")


def test_a_resource_may_be_a_custom_host() -> None:
    assert named_by_resource("https://shop.other.org/api/v3/app", "example.com", SERVICES) == StoreAddress(
        host="shop.other.org"
    )


@pytest.mark.parametrize(
    "resource",
    [
        "demo",
        "/stores/demo/api/v3/app",
        "ftp://api.example.com/stores/demo/api/v3/app",
        "https://api.example.com/stores/demo",
        "https://api.example.com/stores/demo/api/v3/app/",
        "https://api.example.com/stores/demo/api/v3/app/products",
        "https://api.example.com/stores/demo/api/v3/app?x=1",
        "https://api.example.com/stores/demo/api/v3/app#x",
        "https://evil.example.org/stores/demo/api/v3/app",
        "https://api.example.com/prefix/stores/demo/api/v3/app",
        "https://user@api.example.com/stores/demo/api/v3/app",
        "https://api.example.com/stores/de%6do/api/v3/app",
        "https://api.example.com/stores/a/stores/b/api/v3/app",
        "https://api.example.com/stores/demo/api/v3/app\n",
    ],
)
def test_any_other_resource_names_no_store(resource: str) -> None:
    assert named_by_resource(resource, "example.com", SERVICES) == NO_STORE


def test_a_service_under_a_path_prefix_is_recognized() -> None:
    resource = "https://example.org/stoa/stores/demo/api/v3/app"
    assert named_by_resource(resource, "example.com", ["https://example.org/stoa/"]) == StoreAddress(handle="demo")


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    for address in (
        named_by_host(text, "localhost"),
        named_by_path(text),
        named_by_resource(text, "localhost", SERVICES),
    ):
        assert "\x00" not in address.handle + address.host


def test_the_public_url_takes_precedence_over_the_request() -> None:
    seen, public = (
        ServiceUrls("http", "demo.example.com:8000", ""),
        ServiceUrls("http", "demo.example.com", "https://api.example.com"),
    )
    assert seen.service == "http://demo.example.com:8000"
    assert seen.resource(None) == "http://demo.example.com:8000/api/v3/app"
    assert public.service == "https://api.example.com"
    assert public.resource("demo") == "https://api.example.com/stores/demo/api/v3/app"
    assert public.resource(None) == "https://demo.example.com/api/v3/app"
