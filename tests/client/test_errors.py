"""What is refused says why, in a form that programs can decide by."""

import pytest

from stoa.api import ENDPOINTS
from stoa.client import ApiError, Client, codes, errors
from stoa.rest.openapi import errors_of


def test_every_fault_of_a_body_is_named(client: Client) -> None:
    with pytest.raises(codes.ValidationFailed) as refused:
        client.products.create(name="", price="much")
    error = refused.value
    assert {fault.pointer for fault in error.errors} == {"/name", "/price"}
    assert error.request_id.startswith("req_")
    assert "/price" in str(error)
    assert (error.status, error.code, error.retryable) == (422, "validation_failed", False)


def test_a_refusal_can_be_caught_by_its_family(client: Client) -> None:
    made = client.products.create(name="Mug", price="1.00", sku="MUG-1")
    with pytest.raises(errors.Conflict) as refused:
        client.products.create(name="Mug", price="1.00", sku="MUG-1")
    assert isinstance(refused.value, codes.SkuTaken)
    assert refused.value.more["existing_id"] == made.id


def test_every_code_of_the_service_has_its_class() -> None:
    declared = {(kind.code, kind.status) for endpoint in ENDPOINTS for kind in errors_of(endpoint)}
    for code, status in declared:
        assert code in ApiError.by_code, f"{code} is missing: run make sdk"
        family = ApiError.by_status.get(status, ApiError)
        assert issubclass(ApiError.by_code[code], family if status < 500 else errors.ServiceFailed)


def test_a_code_of_a_later_release_is_still_of_its_family() -> None:
    error = errors.refusal(409, b'{"code":"never_heard","detail":"x","errors":"odd"}', None)
    assert (type(error), error.code, error.errors) == (errors.Conflict, "never_heard", [])
    assert type(errors.refusal(418, b"[]", None)) is ApiError
    assert type(errors.refusal(599, b"", None)) is errors.ServiceFailed


def test_an_unknown_argument_is_refused_by_the_service_with_a_hint(client: Client) -> None:
    with pytest.raises(codes.ValidationFailed) as refused:
        client.products.create(name="Mug", price="1.00", statsu="draft")  # pyright: ignore[reportCallIssue]
    [fault] = refused.value.errors
    assert fault.code == "unknown_field"
    assert (fault.meta or {})["did_you_mean"] == "status"
