"""What belongs to a member that a release adds to a resource: each test names what was forgotten. See CONTRIBUTING.md."""

import re
from pathlib import Path

import msgspec
import pytest

from stoa.customers import documents as customers
from stoa.customers.bodies import CustomerChanges, NewCustomer
from stoa.customers.contract import CUSTOMERS
from stoa.db.editions import Addition
from stoa.db.migrate import functions
from stoa.imports import products as imports
from stoa.orders import input_rows as orders
from stoa.orders.bodies import NewOrder, OrderChanges
from stoa.orders.lists import ORDERS
from stoa.orders.state import LineState, OrderState
from stoa.products import documents as products
from stoa.products.bodies import NewProduct, NewVariant, ProductChanges, ProductFields, VariantChanges, VariantFields
from stoa.products.queries import PRODUCTS, VARIANTS

ROOT = Path(__file__).parents[2]
PARTS = {part.function: part for part in (*products.PARTS, *customers.PARTS, *orders.PARTS)}
# The table of each part, its request bodies, and the filters of its lists.
TABLES = {
    "product_head": ("products", (NewProduct, ProductChanges), (PRODUCTS,)),
    "variant_head": ("variants", (NewVariant, VariantChanges), (VARIANTS, PRODUCTS)),
    "customer_head": ("customers", (NewCustomer, CustomerChanges), (CUSTOMERS,)),
    "order_purchase": ("orders", (NewOrder, OrderChanges), (ORDERS,)),
    "order_items": ("orders", (), ()),
    "order_person": ("orders", (NewOrder, OrderChanges), (ORDERS,)),
}
# What a part is in memory, if its fields are listed.
STATES: dict[str, type[msgspec.Struct]] = {
    "product_head": ProductFields,
    "variant_head": VariantFields,
    "order_purchase": OrderState,
    "order_items": LineState,
    "order_person": OrderState,
}
# Members that callers cannot send, with the reason.
READ_ONLY: dict[tuple[str, str], str] = {
    ("order_purchase", "payments"): "a status change records a payment",
    ("order_purchase", "removed_line_items"): "an edit of line items records them",
}
# Members that no page of the portal shows, with the reason.
NOT_SHOWN: dict[tuple[str, str], str] = {}
ADDED = [
    pytest.param(name, each, id=f"{name}.{'.'.join(each.path)}")
    for name, part in PARTS.items()
    for each in part.additions
]
OWN = [
    pytest.param(name, each.path[0], id=f"{name}.{each.path[0]}")
    for name, part in PARTS.items()
    for each in part.additions
    if len(each.path) == 1
]


def text_of(*patterns: str) -> str:
    return "\n".join(file.read_text() for pattern in patterns for file in sorted(ROOT.glob(pattern)))


def test_every_part_is_described_here() -> None:
    assert TABLES.keys() == PARTS.keys()


@pytest.mark.parametrize(("name", "member"), ADDED)
def test_the_member_is_documented(name: str, member: Addition) -> None:
    word = f"`{member.path[-1]}`"
    assert word in text_of("docs/api-changelog.md"), f"docs/api-changelog.md does not mention {word}"
    assert word in text_of("docs/guides/*.md"), f"no guide in docs/guides mentions {word}"


@pytest.mark.parametrize(("name", "member"), OWN)
def test_the_member_can_be_sent(name: str, member: str) -> None:
    for body in TABLES[name][1]:
        known = {field.encode_name for field in msgspec.structs.fields(body)}
        assert member in known or (name, member) in READ_ONLY, f"{body.__name__} has no field {member}"


@pytest.mark.parametrize(("name", "member"), OWN)
def test_the_state_in_memory_has_the_member_with_its_default(name: str, member: str) -> None:
    if name in STATES:
        state = STATES[name]
        fields = {field.name: field for field in msgspec.structs.fields(state)}
        assert member in fields, f"{state.__name__} has no field {member}"
        made = fields[member].default_factory
        default = fields[member].default if made is msgspec.NODEFAULT else made()
        assert default == PARTS[name].defaults[member]


@pytest.mark.parametrize(("name", "member"), OWN)
def test_a_column_for_a_filter_is_derived_from_the_document_and_indexed(name: str, member: str) -> None:
    table, _, lists = TABLES[name]
    if not any(member in each.filters for each in lists):
        return
    schema = (ROOT / "src/stoa/schema/schema.sql").read_text()
    columns = re.search(rf"CREATE TABLE {table} \((.*?)\n\)", schema, re.DOTALL)
    assert columns is not None
    assert re.search(rf"^    {member} ", columns[1], re.MULTILINE), f"{table} has no column {member}: add a migration"
    assert re.search(rf" ON {table} \(store_id, {member}\b", schema), f"no index on {table} (store_id, {member})"
    derived = [each.name for each in functions() if f"member_text(t.head, '{member}')" in each.sql]
    assert derived, f"no stored function derives {member} with member_text: the previous release would clear the column"
    plans = (ROOT / "tests/contract/test_plans.py").read_text()
    assert f"?{member}=" in plans, f"tests/contract/test_plans.py has no request with {member}="


@pytest.mark.parametrize(("name", "member"), OWN)
def test_a_file_has_a_column_for_the_member(name: str, member: str) -> None:
    columns = {"product_head": imports.COLUMNS.resource, "variant_head": imports.COLUMNS.member}.get(name)
    if columns is not None and (name, member) not in READ_ONLY:
        prefix = "variant." if name == "variant_head" else ""
        assert prefix + member in columns, f"imports have no column {prefix}{member}"
        assert f"`{prefix}{member}`" in text_of("docs/guides/imports.md"), f"the import guide misses {prefix}{member}"


@pytest.mark.parametrize(("name", "member"), OWN)
def test_the_portal_shows_the_member(name: str, member: str) -> None:
    shown = f".{member}" in text_of("src/stoa/portal/templates/stores/*.html")
    assert shown or (name, member) in NOT_SHOWN, f"no template in src/stoa/portal/templates/stores shows {member}"
