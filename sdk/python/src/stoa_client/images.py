"""Uploads pictures of products, in addition to the generated calls."""

import base64
import os
from pathlib import Path
from typing import Any

from stoa_client.codes import VersionConflict
from stoa_client.connection import AsyncResource, Resource
from stoa_client.models import Image, Product
from stoa_client.requests import segment

_TRIES = 5  # others may change the product at the same time
_SIGNATURES = (
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG", "image/png"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"avif", "image/avif"),
)
Picture = str | os.PathLike[str] | bytes


def _image(file: Picture, alt: str | None) -> dict[str, Any]:
    data = file if isinstance(file, bytes) else Path(file).read_bytes()
    media = next((kind for at, begin, kind in _SIGNATURES if data[at : at + len(begin)] == begin), None)
    if media is None:
        raise ValueError("the file is not a JPEG, PNG, WebP, GIF or AVIF picture")
    return {"content_type": media, "data": base64.b64encode(data).decode(), "alt": alt}


def _with(product: Product, image: dict[str, Any]) -> dict[str, Any]:
    kept = [{"id": each.id, "url": each.url, "alt": each.alt} for each in product.images]
    return {"images": [*kept, image]}


class ProductImages(Resource):
    """The pictures of products."""

    def upload(self, product_id: int, file: Picture, /, *, alt: str | None = None) -> Image:
        """Add a picture to a product, after its other images: a path, or the bytes of a file of at most 8 MB.

        It takes no idempotency key: if it fails without a clear answer, read the images of the product before you repeat it.
        Requires the scope `products:write`.
        """
        image, path = _image(file, alt), f"/products/{segment(product_id)}"
        for tries_left in reversed(range(_TRIES)):
            product = self._connection.one(Product, "GET", path)
            try:
                changed = self._connection.one(Product, "PATCH", path, body=_with(product, image), if_match=product)
            except VersionConflict:
                if not tries_left:
                    raise
            else:
                return changed.images[-1]
        raise AssertionError


class AsyncProductImages(AsyncResource):
    """The pictures of products, for an event loop."""

    async def upload(self, product_id: int, file: Picture, /, *, alt: str | None = None) -> Image:
        """Add a picture to a product, after its other images: a path, or the bytes of a file of at most 8 MB.

        It takes no idempotency key: if it fails without a clear answer, read the images of the product before you repeat it.
        Requires the scope `products:write`.
        """
        image, path = _image(file, alt), f"/products/{segment(product_id)}"
        for tries_left in reversed(range(_TRIES)):
            product = await self._connection.one(Product, "GET", path)
            try:
                changed = await self._connection.one(
                    Product, "PATCH", path, body=_with(product, image), if_match=product
                )
            except VersionConflict:
                if not tries_left:
                    raise
            else:
                return changed.images[-1]
        raise AssertionError
