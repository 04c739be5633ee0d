"""Takes the pictures of a request before its transaction begins: decodes and stores them, and looks up known ones."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET

from stoa.media.addresses import name_in_url
from stoa.media.contract import Picture, PictureRefused, PicturesUnavailable
from stoa.media.files import media_of
from stoa.products.bodies import ChangedImage, NewImage, NewProduct, ProductBatch, ProductChanges
from stoa.rest.body import lifted_number
from stoa.rest.call import Call
from stoa.rest.checks import validation_failed
from stoa.rest.problems import Fault, Refusal, ServiceUnavailable

Images = Sequence[NewImage | ChangedImage]


async def take_pictures(call: Call, body: NewProduct | ProductChanges, product_id: int = 0) -> None:
    """Store the pictures in a body, and make them known to its handler. A refusal names every one that is unusable."""
    images: Images = body.images if body.images is not UNSET and body.images is not None else ()
    faults = await _take(call, [(image, f"/images/{index}") for index, image in enumerate(images)])
    if faults:
        raise validation_failed(faults)


async def take_pictures_of_batch(call: Call, body: ProductBatch) -> None:
    """Likewise for a batch: an unusable picture refuses only its item."""
    kept = [index for index in range(len(body.items) + len(call.refused_items)) if index not in call.refused_items]
    usable, refused = list(body.items), dict[int, Refusal]()
    for index, item in zip(kept, body.items, strict=True):
        sent = item.data.get("images")
        images = cast("list[Any]", sent) if isinstance(sent, list) else []
        named = [(image, f"/data/images/{n}") for n, each in enumerate(images) if (image := _image(each)) is not None]
        faults = await _take(call, named)
        if faults:
            refused[index] = validation_failed(faults)
            usable.remove(item)
    body.items = usable  # both at once, because this begins again if the store moves meanwhile
    call.refused_items.update(refused)


def _image(sent: Any) -> NewImage | None:
    """The members that name a picture; the item is checked as a whole later."""
    if not isinstance(sent, dict):
        return None
    members = cast("dict[str, Any]", sent)
    text = {name: members.get(name) for name in ("url", "content_type", "data")}
    known = {name: value for name, value in text.items() if isinstance(value, str)}
    return NewImage(**cast("Any", known))


async def _take(call: Call, images: Sequence[tuple[NewImage, str]]) -> list[Fault]:
    urls = [image.url for image, _ in images if image.url is not None and name_in_url(image.url)]
    if not urls and all(image.data is None for image, _ in images):
        return []
    faults: list[Fault] = []
    media = media_of(call.settings)
    taken = await media.known(call.autocommit, call.store_id, urls)
    for image, at in images:
        if image.data is None:
            continue
        if image.content_type is None:
            faults.append(Fault(f"{at}/content_type", "required", "is required with data"))
            continue
        number = lifted_number(image.data)
        large = call.lifted[number] if number is not None and number < len(call.lifted) else None
        try:
            decoded = await media.decoder.decode(image.data.encode() if large is None else large, encoded=True)
            if decoded.media == image.content_type:
                taken[image.data] = await media.keep(call.autocommit, call.store_id, decoded)
            else:
                words = f"is {image.content_type}, but the file is {decoded.media}"
                faults.append(Fault(f"{at}/content_type", "invalid_picture", words))
        except PictureRefused as refusal:
            faults.append(Fault(f"{at}/data", "invalid_picture", str(refusal)))
        except PicturesUnavailable as reason:
            raise ServiceUnavailable(f"{reason} Retry later.", headers=[(b"retry-after", b"5")]) from reason
    show_pictures(call, taken)
    return faults


def show_pictures(call: Call, pictures: Mapping[str, Picture]) -> None:
    """Let the handler of a call use these pictures, by what names them in its body."""
    if pictures:
        call.store = msgspec.structs.replace(call.store, pictures={**call.store.pictures, **pictures})
