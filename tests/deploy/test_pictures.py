"""Pictures behind a proxy and on several nodes: HAProxy caches them, the rule for nginx finds their files, and all nodes share them."""

import re
from pathlib import Path

import httpx
import pytest

from stoa.media.contract import WIDTHS
from stoa.media.s3 import Bucket
from stoa.media.storage import Folder, key_of
from tests.deploy.test_compose import STOA
from tests.deploy.test_systemd import directives
from tests.pictures.samples import opened, picture, upload
from tests.support.haproxy import HAProxy, needs_haproxy
from tests.support.service import Service

OPERATIONS = Path(__file__).parents[2] / "docs/operations"


@needs_haproxy
@pytest.mark.not_on_cluster("it is about the proxy")
@pytest.mark.long
async def test_haproxy_serves_a_picture_from_its_memory(tmp_path: Path) -> None:
    with Service(tmp_path, workers=1, background=False) as service:
        account = await service.account("pictures")
        async with account.client() as client:
            body = {"name": "Mug", "price": "1.00", "images": [upload(picture())]}
            made = await client.post("/products", json=body)
            path = httpx.URL(made.json()["data"]["images"][0]["url"]).path
        with (
            HAProxy(tmp_path, [service, service]) as proxy,
            httpx.Client(base_url=proxy.url, trust_env=False) as client,
        ):
            first, small = client.get(path), client.get(f"{path}?w=64")
            assert (opened(first.content).size, opened(small.content).size) == ((300, 200), (64, 43))
            service.stop()
            for query, shown in (("", first), ("?w=64", small)):
                again = client.get(f"{path}{query}")
                assert (again.status_code, again.content) == (200, shown.content)
                assert again.headers["cache-control"] == "public, max-age=31536000, immutable"
                known = client.get(f"{path}{query}", headers={"if-none-match": shown.headers["etag"]})
                assert (known.status_code, known.content) == (304, b"")
            assert client.get("/health").status_code == 503, "nothing else is cached"


async def test_the_rule_for_nginx_names_the_files_of_the_folder(tmp_path: Path) -> None:
    """nginx itself is not run: its expression, its map and its list of files are applied as nginx does."""
    rule = re.search(r"```nginx\n(.*?)```", (OPERATIONS / "running.md").read_text(), re.DOTALL)
    assert rule is not None
    widths = dict(re.findall(r'(\d+) "(-\d+)";', rule[1]))
    assert {int(width) for width in widths} == set(WIDTHS)
    [expression] = re.findall(r'location ~ "([^"]+)"', rule[1])
    [files] = re.findall(r"try_files (.*);", rule[1])
    name = f"7/{0xA1B2:040x}.webp"
    folder = Folder(tmp_path)
    for width in (None, 64, 1280):
        await folder.put(key_of(name, width), b"picture %d" % (width or 0))
    found = re.fullmatch(expression.replace("(?<", "(?P<"), f"/media/{name}")
    assert found is not None

    def answer(width: str) -> bytes | None:
        values = {**found.groupdict(), "width": widths.get(width, "")}
        for file in files.split()[:-1]:
            path = tmp_path / re.sub(r"\$(\w+)", lambda each: values[each[1]], file).removeprefix("/")
            if path.is_file():
                return path.read_bytes()
        return None

    assert [answer(width) for width in ("", "64", "1280", "320", "65")] == [
        b"picture 0", b"picture 64", b"picture 1280", b"picture 0", b"picture 0"
    ]  # fmt: skip
    assert re.fullmatch(expression.replace("(?<", "(?P<"), f"/media/{name}".replace("7/", "7/../")) is None


def test_all_nodes_share_the_pictures() -> None:
    places = {name: each["environment"]["STOA_MEDIA_URL"] for name, each in STOA.items()}
    assert {"api-1", "api-2", "worker"} <= places.keys()
    assert set(places.values()) == {"file:///media"}
    assert all("media:/media" in each["volumes"] for each in STOA.values())
    units = [directives(f"{name}.service") for name in ("stoa", "stoa-worker")]
    assert all("STOA_MEDIA_URL=file:///var/lib/stoa-media " in unit["Environment"][0] for unit in units)
    assert all("stoa-media" in unit["StateDirectory"][0].split() for unit in units)
    [url] = re.findall(r"--from-literal=STOA_MEDIA_URL='([^']+)'", (OPERATIONS / "deploy.md").read_text())
    Bucket.of(url)
