"""The metadata definitions of an app are tables of its file."""

from stoa.app_file.reading import read_file
from stoa.app_file.writing import write_file
from stoa.rest.metadata_types import Definition
from stoa.store_data.definitions import definitions_of_app
from tests.app_file.conftest import Pushing
from tests.app_file.test_push import FILE, keys

METADATA = """
[[metadata]]
resource = "product"
key = "warranty_months"
type = "integer"
min = 0
max = 120

[[metadata]]
resource = "customer"
key = "rate"
type = "decimal"
max = 1.5
required_from = "2027-01-31"
"""
RATE = Definition(resource="customer", key="rate", type="decimal", max=1.5, required_from="2027-01-31")
WARRANTY = Definition(resource="product", key="warranty_months", type="integer", min=0, max=120)


def test_a_written_file_is_read_again() -> None:
    file = read_file(FILE + METADATA)
    assert file.metadata == [RATE, WARRANTY]
    assert read_file(write_file(file)) == file


async def test_a_push_applies_definitions_once(ci: Pushing) -> None:
    await ci.pushed(FILE, confirm="true")
    app_id = (await ci.app()).id
    pushed = await ci.pushed(FILE + METADATA)
    assert keys(pushed) == [("add", 'metadata."customer.rate"'), ("add", 'metadata."product.warranty_months"')]
    assert await definitions_of_app(ci.by.db, app_id) == [RATE, WARRANTY]
    assert keys(await ci.pushed(FILE + METADATA)) == []
    removed = await ci.pushed(FILE)
    assert [action for action, _ in keys(removed)] == ["remove", "remove"]
    assert await definitions_of_app(ci.by.db, app_id) == []
