"""The portal's style sheet and script: named after their content, so that browsers may keep them for ever."""

import gzip
import hashlib
from functools import cache
from importlib.resources import files

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from stoa.rest.request import accepts_gzip

PATH = "/portal/assets/"
_MEDIA = {"css": "text/css", "js": "text/javascript"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}


class Asset(msgspec.Struct, frozen=True):
    address: str
    media: str
    tag: str
    content: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Every file of the folder by its plain name, such as `portal.css`."""
    found: dict[str, Asset] = {}
    for item in (files("stoa.portal") / "assets").iterdir():
        stem, _, ending = item.name.rpartition(".")
        if ending in _MEDIA:
            content = item.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:16]
            address = f"{PATH}{stem}.{digest}.{ending}"
            found[item.name] = Asset(address, _MEDIA[ending], f'"{digest}"', content, gzip.compress(content, mtime=0))
    return found


async def serve_asset(request: Request) -> Response:
    """One of them; under the name of an older release, today's content, to be asked for again."""
    stem, _, rest = str(request.path_params["name"]).partition(".")
    asset = assets().get(f"{stem}.{rest.rpartition('.')[2]}")
    if asset is None:
        return Response(status_code=404, headers={"Cache-Control": "no-store"})
    exact = asset.address == f"{PATH}{request.path_params['name']}"
    keep = "public, max-age=31536000, immutable" if exact else "no-cache"
    headers = {**_HEADERS, "Cache-Control": keep, "ETag": asset.tag}
    if asset.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if accepts_gzip(dict(request.headers.raw)):
        packed = {**headers, "Content-Encoding": "gzip"}
        return Response(asset.packed, media_type=asset.media, headers=packed)
    return Response(asset.content, media_type=asset.media, headers=headers)
