"""The form of a product with its variants as a grid, and the API body that it becomes.

It decides nothing: the endpoint's handler accepts or refuses the body, and its pointers lead back to the fields.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from stoa.portal.kit.forms import text
from stoa.portal.stores.metadata_forms import NewMetadata
from stoa.portal.stores.order_forms import Line, Tags, tags_in
from stoa.portal.stores.writes import whole
from stoa.products.contract import Product, Variant
from stoa.rest.csv_rows import number

LONGEST_DESCRIPTION = 15_000  # a longer text is not shown, and stays
MOST_COLLECTIONS = 60  # boxes; a store with more chooses on the pages of its collections
OPTIONS = ("1", "2", "3")
_NEW = "new"
_SPACES = re.compile(r"[\s\u00a0\u202f'\u2019]")
_PLAIN = re.compile(r"-?\d+(?:[.,]\d+)?", re.ASCII)
_GROUPED = re.compile(r"(\d{1,3}(?:,\d{3})+)(?:\.(\d+))?|(\d{1,3}(?:\.\d{3})+)(?:,(\d+))?", re.ASCII)
_CHOICE = {"yes": True, "no": False}


class ProductForm(NewMetadata):
    """A product. The cells of the grid are named by the ids of variants, or `new1`, `new2` ... for new ones."""

    seen: Line = ""
    name: Line = ""
    description: Annotated[
        str,
        text(f"Enter at most {LONGEST_DESCRIPTION:,} characters.", max_length=LONGEST_DESCRIPTION, multiline=True),
    ] = ""
    with_description: bool = False  # whether the page shows it
    status: Line = "active"
    price: Line = ""
    brand: Line = ""
    category: Line = ""
    slug: Line = ""
    tags: Tags = ""
    collections: list[str] = msgspec.field(default_factory=list[str])
    with_collections: bool = False
    option_names: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    variants: list[str] = msgspec.field(default_factory=list[str])  # the rows that the page shows
    skus: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    prices: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    barcodes: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    gtins: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    weights: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    shipping: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    taxed: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    stocks: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    on_hand: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # what the page showed
    option1: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    option2: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    option3: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    variant_metadata: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # by row and key: `new1.origin`

    def rows(self) -> list[str]:
        """The rows that describe a variant: all that exist, and new ones with a value in any cell."""
        typed = (self.skus, self.prices, self.barcodes, self.gtins, self.weights, self.stocks)
        cells = (*typed, self.option1, self.option2, self.option3)
        return [
            row
            for row in dict.fromkeys(self.variants)
            if not row.startswith(_NEW) or any(row in each for each in cells)
        ]

    def values(self, row: str) -> dict[str, str]:
        """The option values of a row, by the names of the options."""
        cells = dict(zip(OPTIONS, (self.option1, self.option2, self.option3), strict=True))
        return {name: cells[n][row] for n, name in self.option_names.items() if n in cells and row in cells[n]}

    def metadata_of(self, row: str) -> dict[str, str]:
        cells = ((name.partition("."), value) for name, value in self.variant_metadata.items())
        return {key: value for (of, _, key), value in cells if of == row}


def body_of(form: ProductForm, before: Product | None = None) -> dict[str, Any]:
    """A new product, or a change of one, as the API expects it."""
    stored = {each.handle: each.position for each in before.collections if not each.by_rule} if before else {}
    return {
        "name": form.name,
        "price": amount(form.price),
        "status": form.status,
        "brand": form.brand or None,
        "category": form.category or None,
        "slug": form.slug or None,
        "tags": tags_in(form.tags),
        **({"description": form.description or None} if form.with_description else {}),
        **(
            {
                "collections": [
                    {"handle": each, "position": stored.get(each)} for each in dict.fromkeys(form.collections)
                ]
            }
            if form.with_collections
            else {}
        ),
        "options": _options(form, before),
        **({"variants": rows} if (rows := [_variant(form, row) for row in form.rows()]) else {}),
    }


def _options(form: ProductForm, before: Product | None) -> list[dict[str, Any]]:
    """The options in their order, with the values that they have and those of the grid."""
    stored = before.options if before else []
    found: list[dict[str, Any]] = []
    for index, number_ in enumerate(OPTIONS):
        if name := form.option_names.get(number_):
            known = stored[index].values if index < len(stored) else []
            sent = [values[name] for row in form.rows() if name in (values := form.values(row))]
            found.append({"name": name, "values": list(dict.fromkeys([*known, *sent]))})
    return found


def _variant(form: ProductForm, row: str) -> dict[str, Any]:
    weight = amount(form.weights.get(row, ""))
    new = row.startswith(_NEW)
    return {
        **({} if new else {"id": whole(row)}),
        "sku": form.skus.get(row),
        "price": amount(form.prices.get(row, "")) or None,
        "barcode": form.barcodes.get(row),
        "gtin": form.gtins.get(row),
        "weight": number(weight) if weight else None,
        "requires_shipping": _CHOICE.get(form.shipping.get(row, "")),
        "taxable": _CHOICE.get(form.taxed.get(row, "")),
        **({"option_values": values} if (values := form.values(row)) else {}),
        **({"metadata": metadata} if (metadata := form.metadata_of(row)) else {}),
        **({"stock": {"on_hand": whole(form.stocks[row])}} if new and row in form.stocks else {}),
    }


def stock_of(form: ProductForm, location: str) -> list[dict[str, Any]]:
    """The levels that differ from what the page showed, as adjustments that replace only these."""
    return [
        {
            "variant_id": whole(row),
            "op": "set",
            "location": location,
            "quantity": whole(form.stocks[row]),
            "compare_quantity": whole(form.on_hand.get(row, "")),
        }
        for row in form.rows()
        if not row.startswith(_NEW) and row in form.stocks and form.stocks[row] != form.on_hand.get(row)
    ]


def fields_of(form: ProductForm, at: str = "") -> dict[str, str]:
    """The field of the form for each pointer into the body."""
    cells = {
        "sku": "skus", "price": "prices", "barcode": "barcodes", "gtin": "gtins", "weight": "weights",
        "requires_shipping": "shipping", "taxable": "taxed", "stock": "stocks", "option_values": "option1",
    }  # fmt: skip
    found = {
        f"{at}/{name}": name
        for name in ("name", "price", "status", "brand", "category", "slug", "tags", "description", "collections")
    }
    named = [number_ for number_ in OPTIONS if number_ in form.option_names]
    found |= {f"{at}/options/{n}": f"option_names[{number_}]" for n, number_ in enumerate(named)}
    found[f"{at}/options"] = "option_names[1]"
    for n, row in enumerate(form.rows()):
        found[f"{at}/variants/{n}"] = f"skus[{row}]"
        found |= {f"{at}/variants/{n}/{member}": f"{field}[{row}]" for member, field in cells.items()}
        found |= {
            f"{at}/variants/{n}/metadata/{key}": f"variant_metadata[{row}.{key}]" for key in form.metadata_of(row)
        }
    return found


def amount(typed: str) -> str:
    """An amount as the API expects it, typed with a comma or a point: `12,50`, `1.234,50` and `1,234.50` are understood.

    A single comma or point is the decimal separator, so that `1,234` is never taken for more than a thousand.
    """
    plain = _SPACES.sub("", typed)
    if _PLAIN.fullmatch(plain):
        return plain.replace(",", ".")
    if found := _GROUPED.fullmatch(plain):
        thousands, fraction = found[1] or found[3], found[2] or found[4]
        return re.sub(r"\D", "", thousands) + (f".{fraction}" if fraction else "")
    return typed


def digest(product: Product) -> str:
    """Identifies what the form showed of a product. Stock, which sales change, is compared by itself."""
    shown = (
        product.name, product.description, product.status, product.price, product.brand, product.category, product.slug,
        product.tags, product.options, [each for each in product.collections if not each.by_rule],
        [_shown(each) for each in product.variants or []],
    )  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


def _shown(variant: Variant) -> Sequence[Any]:
    return (
        variant.id, variant.sku, variant.price, variant.barcode, variant.gtin, variant.weight, variant.requires_shipping,
        variant.taxable, variant.option_values,
    )  # fmt: skip
