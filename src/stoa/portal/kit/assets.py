"""Serves the style sheet and scripts under content-hashed names, so that browsers can cache them forever."""

import gzip
import hashlib
from functools import cache
from importlib.resources import files

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from stoa.rest.headers import accepts_gzip

PATH = "/portal/assets/"
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}


class Asset(msgspec.Struct, frozen=True):
    url: str
    media_type: str
    etag: str
    content: bytes
    gzipped: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return all assets by file name, such as `portal.css`."""
    found: dict[str, Asset] = {}
    for item in (files("stoa.portal") / "assets").iterdir():
        stem, _, extension = item.name.rpartition(".")
        if extension in _MEDIA_TYPES:
            content = item.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:16]
            url = f"{PATH}{stem}.{digest}.{extension}"
            gzipped = gzip.compress(content, mtime=0)
            found[item.name] = Asset(url, _MEDIA_TYPES[extension], f'"{digest}"', content, gzipped)
    return found


async def serve_asset(request: Request) -> Response:
    """Serve an asset; the hash of an older release gets the current content, without long-term caching."""
    stem, _, rest = str(request.path_params["name"]).partition(".")
    asset = assets().get(f"{stem}.{rest.rpartition('.')[2]}")
    if asset is None:
        return Response(status_code=404, headers={"Cache-Control": "no-store"})
    current = asset.url == f"{PATH}{request.path_params['name']}"
    caching = "public, max-age=31536000, immutable" if current else "no-cache"
    headers = {**_HEADERS, "Cache-Control": caching, "ETag": asset.etag}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if accepts_gzip(dict(request.headers.raw)):
        headers["Content-Encoding"] = "gzip"
        return Response(asset.gzipped, media_type=asset.media_type, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
