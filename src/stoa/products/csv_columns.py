"""The columns of a CSV file of products, which imports read and streams write."""

from stoa.products.bodies import NewProduct, NewVariant
from stoa.rest import csv_rows

_OF_ONE_VARIANT = ("sku", "barcode")  # without a prefix, because a product with one variant has them too
COLUMNS = csv_rows.Columns(
    resource={
        "id": csv_rows.integer,
        "created_at": csv_rows.text,
        **{name: cell for name, cell in csv_rows.columns_of(NewProduct).items() if name not in _OF_ONE_VARIANT},
        **dict.fromkeys("seo.title seo.description metadata. currency".split(), csv_rows.text),
        "tags": csv_rows.words,
        "images": csv_rows.images,
        "collections": csv_rows.collections,
    },
    member={
        "variant.id": csv_rows.integer,
        **dict.fromkeys(("sku", "barcode"), csv_rows.text),
        **{
            name: cell
            for name, cell in csv_rows.columns_of(NewVariant, "variant.").items()
            if name.removeprefix("variant.") not in (*_OF_ONE_VARIANT, "image_id")
        },
        **dict.fromkeys(("variant.metadata.", "location"), csv_rows.text),
        "stock.on_hand": csv_rows.integer,
    },
    only_read={"images.source_url": ("images", csv_rows.image_sources)},
    members="variants",
    flat=frozenset({"sku", "barcode", "stock", "location"}),
    grouped_by=("id", "external_id", "slug"),
    grouped_with_options="name",
)
