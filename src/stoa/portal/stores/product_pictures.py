"""The forms of a product's pictures: uploaded, fetched, described, ordered and removed, through the API's own endpoint."""

from typing import Any

import msgspec

from stoa.portal.kit.forms import FormError, OnceForm
from stoa.portal.kit.pages import ROOT, Redirect
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.order_forms import Line
from stoa.portal.stores.picture_upload import take_upload
from stoa.portal.stores.product_actions import pages
from stoa.portal.stores.products import find_product, store_product
from stoa.portal.stores.writes import REPEATED, Change, carry_out
from stoa.products.bodies import ProductBatch
from stoa.products.contract import Image
from stoa.products.endpoints import batch_products
from stoa.products.pictures import show_pictures
from stoa.products.save import load
from stoa.rest.body import convert
from stoa.rest.call import Call


class PictureForm(OnceForm):
    """A picture to add: its file is beside the fields, or Stoa fetches it from an address."""

    source_url: Line = ""
    alt: Line = ""


class PicturesForm(OnceForm):
    """The texts and positions of the pictures that the page showed, and the ids of those to remove."""

    shown: list[str] = msgspec.field(default_factory=list[str])
    alts: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    positions: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    removed: list[str] = msgspec.field(default_factory=list[str])


@pages.form("/stores/{handle}/products/{product_id:int}/pictures", on=store_product, upload=True, in_shard=True)
async def add_picture(visit: Visit, form: PictureForm) -> Redirect:
    await find_product(visit.db, visit)
    picture = await take_upload(visit)
    if picture is None:
        if not form.source_url:
            raise FormError(file="Select a file, or enter an address.")
        return await _change(visit, form, {"source_url": form.source_url, "alt": form.alt or None}, "source_url")
    return await _change(visit, form, {"url": picture.url, "alt": form.alt or None}, "file", {picture.url: picture})


async def _change(
    visit: Visit, form: OnceForm, added: dict[str, Any], field: str, pictures: dict[str, Any] | None = None
) -> Redirect:
    async def work(call: Call) -> Any:
        show_pictures(call, pictures or {})
        return await _save(call, visit, [*map(_kept, await _images(call, visit)), added])

    done = await carry_out(visit, form, _entry(visit, field), work)
    waits = "The picture is being fetched." if "source_url" in added else "The picture was added."
    return Redirect(_url(visit), waits if done else REPEATED, "good" if done else "warn")


@pages.form("/stores/{handle}/products/{product_id:int}/pictures/order", on=store_product, in_shard=True)
async def change_pictures(visit: Visit, form: PicturesForm) -> Redirect:
    async def work(call: Call) -> Any:
        images = [each for each in await _images(call, visit) if str(each.id) not in form.removed]
        ordered = sorted(images, key=lambda each: (_position(form, each), each.position))
        return await _save(call, visit, [{**_kept(each), "alt": _alt(form, each)} for each in ordered])

    done = await carry_out(visit, form, _entry(visit, ""), work)
    return Redirect(_url(visit), "The pictures were saved." if done else REPEATED, "good" if done else "warn")


async def _images(call: Call, visit: Visit) -> list[Image]:
    """The images of the product, which is locked until the transaction ends."""
    await load(call.db, call.store_id, ids=[visit.path_param("product_id")])
    return (await find_product(call.db, visit)).images


async def _save(call: Call, visit: Visit, images: list[dict[str, Any]]) -> Any:
    body = {"items": [{"op": "update", "id": visit.path_param("product_id"), "data": {"images": images}}]}
    return await batch_products(call, convert(body, ProductBatch, digits=call.store.digits))


def _kept(image: Image) -> dict[str, Any]:
    return {"id": image.id, "url": image.url, "alt": image.alt}


def _alt(form: PicturesForm, image: Image) -> str | None:
    """The text that was sent; an empty one clears it, and an image that the page did not show keeps it."""
    return form.alts.get(str(image.id)) if str(image.id) in form.shown else image.alt


def _position(form: PicturesForm, image: Image) -> int:
    sent = form.positions.get(str(image.id), "")
    return int(sent) if sent.isdecimal() and len(sent) < 4 else image.position


def _entry(visit: Visit, field: str) -> Change:
    fields = {"/items/0/data/images": field} if field else {}
    return Change("product.pictures_changed", f"product:{visit.path_param('product_id')}", fields)


def _url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/products/{visit.path_param('product_id')}"
