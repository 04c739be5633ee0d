"""The collections of a store: the list, and one collection with its rules and its products in their order."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stoa.access.contract import AccessRefused
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import ConfirmedForm, FormError, outdated_form, sentence, text
from stoa.portal.kit.list_view import list_view
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.order_forms import Line
from stoa.portal.stores.picture_upload import take_upload
from stoa.portal.stores.products import PRODUCT_LIST
from stoa.products import collection_changes as changes
from stoa.products.collection_changes import Collection, Details
from stoa.products.collection_queries import IS_APPLIED
from stoa.products.collections import MOST_CONDITIONS, Match

pages = Pages()
_EMPTY_RULES = 3  # rows for further rules
_BY_POSITION = (("position", "Position"),)
_Title = Annotated[str, text("Enter a title with 1 to 255 characters.", min_length=1)]
_Text = Annotated[str, text("Enter at most 65,535 characters.", max_length=changes.LONGEST_DESCRIPTION, multiline=True)]
_Picture = Annotated[str, text("Enter a URL that starts with http:// or https://.", max_length=2048)]
_Skus = Annotated[str, text("Enter SKUs, separated by commas or lines.", max_length=20_000, multiline=True)]
_Place = Annotated[int, Meta(ge=1, le=999_999_000, extra={"message": "Enter a whole number from 1."})]


class NewCollectionForm(msgspec.Struct):
    handle: Annotated[str, text("Use 1 to 64 of a-z, 0-9 and inner hyphens.", min_length=1, max_length=64)]
    title: _Title


class CollectionForm(msgspec.Struct):
    title: _Title
    version: Annotated[int, Meta(ge=1, le=2**31)]
    description: _Text = ""
    picture: _Picture = ""
    match: Match = "all"
    rule_fields: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    rule_values: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class MembersForm(msgspec.Struct):
    sku_list: _Skus
    position: _Place | None = None
    remove: Line = ""


class DeleteCollectionForm(ConfirmedForm):
    """The products of a collection remain."""


@pages.page("/stores/{handle}/collections", nav="list_stores")
async def store_collections(visit: Visit) -> View:
    found = await changes.list_collections(visit.by, visit.store.handle)
    return View("stores/collections.html", {"collections": found})


@pages.form("/stores/{handle}/collections", on=store_collections, in_shard=True)
async def create_collection(visit: Visit, form: NewCollectionForm) -> Redirect:
    try:
        await changes.create_collection(visit.by, visit.store.handle, form.handle, Details(form.title))
    except (changes.InvalidCollectionHandle, changes.CollectionTaken) as refusal:
        raise FormError(handle=sentence(refusal)) from refusal
    except AccessRefused as refusal:
        raise FormError(title=sentence(refusal)) from refusal
    return Redirect(_url(visit, form.handle), f"{form.title} was created. Add rules or products.")


@pages.page("/stores/{handle}/collections/{collection}", nav="list_stores")
async def store_collection(visit: Visit) -> View:
    collection = await _collection(visit)
    products = await list_view(visit, PRODUCT_LIST, sorts=_BY_POSITION, fixed={"collection": collection.handle})
    places = {
        product.id: each
        for product in products.rows
        for each in product.collections
        if each.handle == collection.handle
    }
    context = {
        "collection": collection,
        "rules": [*collection.rules, *[None] * _EMPTY_RULES][:MOST_CONDITIONS],
        "products": products,
        "places": places,
        "applied": await IS_APPLIED.one(visit.db, visit.store.id),
    }
    return View("stores/collection.html", context)


@pages.form("/stores/{handle}/collections/{collection}", on=store_collection, upload=True, in_shard=True)
async def change_collection(visit: Visit, form: CollectionForm) -> Redirect:
    collection = await _collection(visit)
    uploaded = await take_upload(visit)
    numbers = [number for number in form.rule_fields if number in form.rule_values]
    try:
        await changes.update_collection(
            visit.by,
            visit.store.handle,
            collection.handle,
            version=form.version,
            title=form.title,
            description=form.description,
            picture=uploaded.url if uploaded else form.picture,
            match=form.match,
            rules=[(form.rule_fields[number], form.rule_values[number]) for number in numbers],
        )
    except changes.InvalidRule as refusal:
        raise FormError({f"rule_values[{numbers[refusal.index]}]": sentence(refusal)}) from refusal
    except changes.CollectionChanged as refusal:
        raise outdated_form() from refusal
    except changes.InvalidPicture as refusal:
        raise FormError(picture=sentence(refusal)) from refusal
    except AccessRefused as refusal:
        raise FormError(title=sentence(refusal)) from refusal
    return Redirect(_url(visit, collection.handle), "Saved.")


@pages.form("/stores/{handle}/collections/{collection}/products", on=store_collection, in_shard=True)
async def change_members(visit: Visit, form: MembersForm) -> Redirect:
    """Add products, or remove those that were added by hand."""
    collection = await _collection(visit)
    skus = [sku for line in form.sku_list.splitlines() for each in line.split(",") if (sku := each.strip())]
    try:
        if form.remove:
            after = await changes.remove_products(visit.by, visit.store.handle, collection.handle, skus)
        else:
            after = await changes.add_products(visit.by, visit.store.handle, collection.handle, skus, form.position)
    except AccessRefused as refusal:
        raise FormError(sku_list=sentence(refusal)) from refusal
    visit.changed_stores.add(visit.store.id)
    return Redirect(_url(visit, collection.handle), f"Saved. {after.title} has {after.products:,} products.")


@pages.form("/stores/{handle}/collections/{collection}/delete", on=store_collection, in_shard=True)
async def delete_collection(visit: Visit, form: DeleteCollectionForm) -> Redirect:
    collection = await _collection(visit)
    await changes.delete_collection(visit.by, visit.store.handle, collection.handle)
    return Redirect(f"{ROOT}/stores/{visit.store.handle}/collections", f"{collection.title} was deleted.")


async def _collection(visit: Visit) -> Collection:
    try:
        return await changes.get_collection(visit.by, visit.store.handle, visit.path_param("collection"))
    except changes.NoSuchCollection as refusal:
        raise not_found() from refusal


def _url(visit: Visit, handle: str) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/collections/{handle}"
