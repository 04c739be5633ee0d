"""Both clients of the SDK cover all declared operations, with types."""

import inspect
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tools.sdk.__main__ import CLIENT, description, modules
from tools.sdk.calls import export_name
from tools.sdk.surface import Operation, operations

from stoa_client import AsyncClient, Client
from stoa_client.connection import AsyncResource, Resource


@pytest.fixture(scope="module")
def every_operation() -> list[Operation]:
    return operations(description())


def test_the_generated_modules_match_the_openapi_document() -> None:
    assert {name for name, text in modules().items() if (CLIENT / name).read_text() != text} == set(), "run make sdk"


def clients() -> Iterator[Any]:
    yield Client("http://localhost/stores/demo", token="x")
    yield AsyncClient("http://localhost/stores/demo", token="x")


def test_every_operation_can_be_called_in_both_clients(every_operation: list[Operation]) -> None:
    for client in clients():
        for operation in every_operation:
            resource = client
            for part in operation.chain:
                resource = getattr(resource, part.replace("-", "_"))
            method = getattr(resource, operation.name)
            assert inspect.getdoc(method), f"{operation.id} has no documentation"


def test_every_call_of_the_client_is_an_operation_or_written_by_hand(every_operation: list[Operation]) -> None:
    by_hand = {"wait", "rows", "save_failures", "feed", "upload"}
    known = {(operation.chain, operation.name) for operation in every_operation}
    known |= {(operation.chain, export_name(operation)) for operation in every_operation if operation.is_list}
    for client in clients():
        for chain, resource in _resources(client, ()):
            for name, _ in inspect.getmembers(resource, inspect.ismethod):
                assert name.startswith("_") or name in by_hand or (chain, name) in known, f"{chain} {name}"


def _resources(parent: Any, chain: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in cast("dict[str, Any]", vars(parent)).items():
        if isinstance(value, Resource | AsyncResource):
            yield (*chain, name), value
            yield from _resources(value, (*chain, name))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_misspelled_option_is_refused(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="unknown option 'retires'; did you mean 'retries'"):
        kind("http://localhost", token="x", retires=3)
    for name, value in {"BASE_URL": "http://localhost", "CLIENT_ID": "a", "CLIENT_SECRET": "b"}.items():
        monkeypatch.setenv(f"STOA_{name}", value)
    with pytest.raises(TypeError, match="unknown option 'verify'"):
        kind.from_environment(verify=False)
