"""Errors have a class for each code, and say what is wrong."""

import copy
import pickle

import httpx
import pytest

from stoa.api import ENDPOINTS
from stoa.rest.openapi.errors import errors_of
from stoa_client import Answer, ApiError, AsyncClient, Client, SignatureRefused, StoaError, codes, errors


def test_every_error_in_a_body_is_listed(client: Client) -> None:
    with pytest.raises(codes.ValidationFailed) as refused:
        client.products.create(name="", price="much")
    error = refused.value
    assert {fault.pointer for fault in error.errors} == {"/name", "/price"}
    assert error.request_id.startswith("req_")
    assert "/price" in str(error)
    assert (error.status, error.code, error.retryable) == (422, "validation_failed", False)


def test_an_error_can_be_caught_by_its_status_class(client: Client) -> None:
    made = client.products.create(name="Mug", price="1.00", sku="MUG-1")
    with pytest.raises(errors.Conflict) as refused:
        client.products.create(name="Mug", price="1.00", sku="MUG-1")
    assert isinstance(refused.value, codes.SkuTaken)
    assert refused.value.more["existing_id"] == made.id


def test_every_code_of_the_service_has_a_class() -> None:
    declared = {(kind.code, kind.status) for endpoint in ENDPOINTS for kind in errors_of(endpoint)}
    for code, status in declared:
        assert code in ApiError.by_code, f"{code} is missing: run make sdk"
        family = ApiError.by_status.get(status, ApiError)
        assert issubclass(ApiError.by_code[code], family if status < 500 else errors.ServiceFailed)


def test_an_unknown_code_falls_back_to_its_status_class() -> None:
    error = errors.refusal(409, b'{"code":"unknown_code","detail":"x","errors":"odd"}', None)
    assert (type(error), error.code, error.errors) == (errors.Conflict, "unknown_code", [])
    assert type(errors.refusal(418, b"[]", None)) is ApiError
    assert type(errors.refusal(599, b"", None)) is errors.ServiceFailed


def test_an_unknown_argument_is_refused_by_the_service_with_a_hint(client: Client) -> None:
    with pytest.raises(codes.ValidationFailed) as refused:
        client.products.create(name="Mug", price="1.00", statsu="draft")  # pyright: ignore[reportCallIssue]
    [fault] = refused.value.errors
    assert fault.code == "unknown_field"
    assert (fault.meta or {})["did_you_mean"] == "status"
    assert "/statsu: is not a known field (did you mean status?)" in str(refused.value)


def test_an_unknown_filter_is_refused_with_a_hint(client: Client) -> None:
    with pytest.raises(codes.UnknownParameter) as refused:
        client.request("GET", "/orders", query={"statsu": "pending"})
    assert "statsu: is not a parameter of this endpoint (did you mean status?)" in str(refused.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("address", ["", "localhost:8000/stores/demo", "shop.example.com", "ftp://shop.example.com"])
def test_a_url_without_a_scheme_is_refused_at_once(kind: type[Client | AsyncClient], address: str) -> None:
    with pytest.raises(ValueError, match="base_url must start with https:// or http://"):
        kind(address, token="t")
    with pytest.raises(ValueError, match="auth_url must start with"):
        kind("https://shop.example.com", client_id="a", client_secret="b", auth_url=address or "/oauth/token")


@pytest.mark.parametrize("error", [
    errors.refusal(409, b'{"code":"sku_taken","detail":"x","existing_id":7,"errors":[{"pointer":"/sku","code":"c","detail":"d"}]}', 1.5),
    errors.refusal(502, b"<html>", None, "req_1"),
    errors.TokenRefused(401, "invalid_client", "The secret is incorrect."),
    errors.UnexpectedAnswer("200 with an unexpected body", 200, b"<html>"),
    errors.NotModified(Answer(304, httpx.Headers({"etag": '"2"'}), {})),
    errors.DeadlineExceeded("too late", 2.0),
    SignatureRefused("no signature matches"),
], ids=lambda error: type(error).__name__)  # fmt: skip
def test_an_error_reaches_another_process_as_it_is(error: StoaError) -> None:
    error.idempotency_key = "order-7"
    unpickled = pickle.loads(pickle.dumps(error))  # noqa: S301
    for arrived in (unpickled, copy.copy(error), copy.deepcopy(error)):
        assert type(arrived) is type(error)
        assert str(arrived) == str(error)
        assert vars(arrived) == vars(error)
