"""The lists of products and variants: their filters and sort keys."""

from datetime import datetime

import msgspec

from stoa.rest.filters import (
    Choices,
    Entries,
    Flag,
    Ids,
    Moment,
    MomentRange,
    MoneyRange,
    Term,
    Text,
    Texts,
    Words,
)
from stoa.rest.lists import ListOf

PRODUCTS = ListOf(
    filters={
        "status": Choices(values=("active", "draft", "archived"), description="One or more of these statuses."),
        "ids": Ids(description="Products with these ids."),
        "sku": Texts(description="Products of the variants with these SKUs.", longest=100),
        "barcode": Texts(description="Products of variants with these barcodes.", longest=100),
        "gtin": Texts(description="Products of variants with these GTINs.", longest=14),
        "brand": Term(kind="brand", description="Products of this brand, ignoring case."),
        "category": Term(
            kind="category", description="This category or any below it, such as `Home/Kitchen`, ignoring case."
        ),
        "tag": Term(kind="tag", description="Products with this tag, ignoring case."),
        "price": MoneyRange(description="The price, or a price range."),
        "in_stock": Flag(description="Whether any variant can be bought now."),
        "q": Words(
            description="Text search. Each word must be the start of a word in the name, brand, category, tags, SKU or barcode."
        ),
        "external_id": Text(description="The product with this external id."),
        "metadata": Entries(description="Products with this metadata value, as in `metadata[material]=linen`."),
        "created_at": MomentRange(description="The time of creation, or a time range."),
        "updated_since": Moment(description="Products changed at or after this time, including stock and metadata."),
    },
    sorts={"id": int, "name": str, "price": int, "created_at": datetime, "updated_at": datetime},
    includes=("variants", "inventory"),
    deletable=True,
)

VARIANTS = ListOf(
    filters={
        "ids": Ids(description="Variants with these ids."),
        "product_id": Ids(description="Variants of these products."),
        "sku": Texts(description="The variants with these SKUs.", longest=100),
        "barcode": Texts(description="Variants with these barcodes.", longest=100),
        "gtin": Texts(description="Variants with these GTINs.", longest=14),
        "external_id": Text(description="The variant with this external id."),
        "updated_since": Moment(description="Variants changed at or after this time, including stock."),
    },
    sorts={"id": int, "created_at": datetime, "updated_at": datetime},
    deletable=True,
)
PRODUCT_VARIANTS = msgspec.structs.replace(
    VARIANTS, filters={name: kind for name, kind in VARIANTS.filters.items() if name != "product_id"}
)
