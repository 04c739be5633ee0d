"""Pictures at their addresses: sizes, caching, ranges, and nothing else."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from stoa.media import serving
from stoa.media.serving import CACHED_S, PictureFiles
from stoa.media.storage import Folder
from stoa.rest.problems import NotFound
from tests.pictures.samples import opened, picture, upload
from tests.support.shops import Shop


@pytest.fixture
async def path(shop: Shop) -> str:
    """The path of a picture that is 1,000 pixels wide."""
    body = {"name": "Mug", "price": "1.00", "images": [upload(picture(1000, 500))]}
    answer = await shop.client.post("/products", json=body)
    return httpx.URL(answer.json()["data"]["images"][0]["url"]).path


async def test_sizes_are_a_fixed_set(shop: Shop, path: str) -> None:
    widths: dict[str, Any] = {}
    for wanted in ("64", "160", "320", "640", "1280", ""):
        answer = await shop.service.get(path, params={"w": wanted} if wanted else None)
        assert answer.status_code == 200
        widths[wanted] = opened(answer.content).size
    assert widths == {
        "64": (64, 32), "160": (160, 80), "320": (320, 160), "640": (640, 320), "1280": (1000, 500), "": (1000, 500)
    }  # fmt: skip
    for wrong in ("w=65", "w=-1", "w=64%00", "w=64x", "w=99999999999999999999"):
        answer = await shop.service.get(f"{path}?{wrong}")
        assert (answer.status_code, "64, 160, 320, 640, 1280" in answer.json()["detail"]) == (400, True), wrong


async def test_an_address_never_changes_so_it_is_cached_for_a_year(shop: Shop, path: str) -> None:
    answer = await shop.service.get(path)
    headers = answer.headers
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (headers["content-type"], headers["x-content-type-options"]) == ("image/jpeg", "nosniff")
    assert "default-src 'none'" in headers["content-security-policy"]
    known = await shop.service.get(path, headers={"if-none-match": headers["etag"]})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", headers["etag"])
    small = await shop.service.get(f"{path}?w=64", headers={"if-none-match": headers["etag"]})
    assert (small.status_code, small.headers["etag"] != headers["etag"]) == (200, True)
    head = await shop.service.head(path)
    assert (head.content, head.headers["content-length"]) == (b"", str(len(answer.content)))


async def test_ranges(shop: Shop, path: str) -> None:
    whole = (await shop.service.get(path)).content
    size = len(whole)
    for wanted, part in {
        "bytes=0-9": whole[:10],
        "bytes=10-": whole[10:],
        "bytes=-5": whole[-5:],
        f"bytes=5-{size + 100}": whole[5:],
    }.items():
        answer = await shop.service.get(path, headers={"range": wanted})
        assert (answer.status_code, answer.content) == (206, part), wanted
    some = await shop.service.get(path, headers={"range": "bytes=5-"})
    assert some.headers["content-range"] == f"bytes 5-{size - 1}/{size}"
    beyond = await shop.service.get(path, headers={"range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    for whole_again in ("bytes=0-1,5-6", "lines=1-2", "bytes=-"):
        assert (await shop.service.get(path, headers={"range": whole_again})).status_code == 200
    other = await shop.service.get(path, headers={"range": "bytes=0-9", "if-range": '"another"'})
    assert (other.status_code, len(other.content)) == (200, size)


async def test_a_removed_picture_is_served_from_memory_for_an_hour_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, folder = 1000.0, Folder(tmp_path)
    files = PictureFiles(folder, clock=lambda: now)
    names = [f"7/{n:040x}.jpg" for n in range(3)]
    for name in names:
        await folder.put(name, name.encode() * 10)
        assert (await files.respond("GET", f"/media/{name}", b"", {})).status == 200
    await folder.delete_all("7/")
    now += CACHED_S - 1
    assert [(await files.respond("GET", f"/media/{name}", b"", {})).status for name in names] == [200] * 3
    now += 1
    for name in names:
        with pytest.raises(NotFound):
            await files.respond("GET", f"/media/{name}", b"", {})
    monkeypatch.setattr(serving, "CACHED_BYTES", 900)  # of two of the files
    for name in names:
        await folder.put(name, name.encode() * 10)
        await files.respond("GET", f"/media/{name}", b"", {})
    await folder.delete_all("7/")
    assert (await files.respond("GET", f"/media/{names[2]}", b"", {})).status == 200
    with pytest.raises(NotFound):
        await files.respond("GET", f"/media/{names[0]}", b"", {})


async def test_other_addresses_and_methods_are_refused(shop: Shop, path: str) -> None:
    name = path.rpartition("/")[2]
    wrong = [
        "/media/",
        "/media/1",
        f"/media/0/{name}",
        f"/media/{shop.store_id}/{'0' * 40}.jpg",
        f"/media/{shop.store_id + 1}/{name}",
        path.replace(".jpg", "-64.jpg"),
        path.replace(".jpg", ".png"),
        f"/media/{shop.store_id}/..%2f..%2fsecret.key",
        f"/media/..%2f..%2f{name}",
        f"{path}/",
    ]
    for each in wrong:
        answer = await shop.service.get(each)
        assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store"), each
    for method in ("POST", "PUT", "DELETE"):
        answer = await shop.service.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
