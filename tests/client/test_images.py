"""Pictures are uploaded from a path or from bytes, after the other images, also if somebody else changes the product meanwhile."""

from pathlib import Path

import httpx
import pytest

from stoa_client import AsyncClient, Client, codes
from tests.client.lossy import through
from tests.pictures.samples import animation, picture
from tests.support.service import Account


def test_a_picture_is_a_path_or_bytes(client: Client, tmp_path: Path) -> None:
    mug = client.products.create(name="Mug", price="1.00", images=[{"url": "https://a.example/b.jpg", "alt": "Old"}])
    file = tmp_path / "no-extension"
    file.write_bytes(picture(kind="PNG"))
    first = client.products.images.upload(mug.id, file, alt="A red mug")
    assert (first.width, first.height, first.status, first.alt, first.position) == (300, 200, "ready", "A red mug", 2)
    file.write_bytes(picture(80, 60))
    assert client.products.images.upload(mug.id, str(file)).width == 80
    for kind in ("WEBP", "AVIF"):
        client.products.images.upload(mug.id, picture(kind=kind))
    client.products.images.upload(mug.id, animation())
    shown = client.products.get(mug.id).images
    assert [(each.id, each.width) for each in shown] == [(1, None), (2, 300), (3, 80), (4, 300), (5, 300), (6, 40)]
    assert shown[0].alt == "Old"


async def test_a_picture_is_uploaded_in_an_event_loop(async_client: AsyncClient, tmp_path: Path) -> None:
    mug = await async_client.products.create(name="Mug", price="1.00")
    (tmp_path / "mug.jpg").write_bytes(picture())
    assert (await async_client.products.images.upload(mug.id, tmp_path / "mug.jpg")).width == 300


def test_a_file_that_is_no_picture_is_refused_before_it_is_sent(client: Client, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("Dear reader, ...")
    with pytest.raises(ValueError, match="is not a JPEG"):
        client.products.images.upload(1, tmp_path / "text.png")
    with pytest.raises(FileNotFoundError):
        client.products.images.upload(1, tmp_path / "nothing.png")


def test_an_upload_is_repeated_if_the_product_changes_meanwhile(account: Account) -> None:
    changes = 0

    def change(request: httpx.Request, response: httpx.Response, times: int) -> httpx.Response:
        """Let somebody else change the product after it was read, as often as `changes` says."""
        if request.method == "GET" and times <= changes:
            headers = {"authorization": f"Bearer {account.token}"}
            httpx.patch(request.url, json={"name": f"Mug {times}"}, headers=headers, trust_env=False).raise_for_status()
        return response

    with through(account, change) as (client, _):
        mug = client.products.create(name="Mug", price="1.00")
        changes = 2
        assert client.products.images.upload(mug.id, picture()).width == 300
    with through(account, change) as (client, _):
        product = client.products.get(mug.id)
        assert (product.name, len(product.images)) == ("Mug 2", 1)
        changes = 100
        with pytest.raises(codes.VersionConflict):
            client.products.images.upload(mug.id, picture())
