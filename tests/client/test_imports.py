"""Files are uploaded as a stream, followed until the import ends, and reported row by row."""

import gzip
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoa_client import AsyncClient, Client, codes, errors
from stoa_client.uploads import Upload, source
from tests.client.lossy import lost_at_first, through
from tests.support.service import Account


def rows(count: int) -> Iterator[dict[str, Any]]:
    for n in range(count):
        yield {"name": f"Mug {n}", "price": "1.00", "sku": f"MUG-{n}"}


def ndjson(count: int) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows(count))


def as_path(folder: Path) -> Upload:
    (folder / "mugs.ndjson").write_bytes(ndjson(3))
    return folder / "mugs.ndjson"


def as_gzipped_path(folder: Path) -> Upload:
    (folder / "mugs.ndjson.gz").write_bytes(gzip.compress(ndjson(3)))
    return str(folder / "mugs.ndjson.gz")


def as_csv(folder: Path) -> Upload:
    (folder / "mugs.csv").write_text("sku,name,price\nMUG-0,Mug 0,1.00\nMUG-1,Mug 1,1.00\nMUG-2,Mug 2,1.00\n")
    return folder / "mugs.csv"


def as_rows(_folder: Path) -> Upload:
    return rows(3)


@pytest.mark.parametrize("given", [as_path, as_gzipped_path, as_csv, as_rows])
def test_a_file_may_be_a_path_or_rows(client: Client, tmp_path: Path, given: Callable[[Path], Upload]) -> None:
    job = client.products.imports.create(given(tmp_path), wait_s=5)
    done = client.products.imports.wait(job, within_s=60)
    assert (done.status, done.counts.created) == ("succeeded", 3)
    assert {product.name for product in client.products.list()} == {"Mug 0", "Mug 1", "Mug 2"}


def test_an_open_file_is_sent_from_its_position_and_stays_open(client: Client, tmp_path: Path) -> None:
    (tmp_path / "mugs.ndjson").write_bytes(b"a line to skip\n" + ndjson(3))
    with (tmp_path / "mugs.ndjson").open("rb") as file:
        file.readline()
        job = client.products.imports.create(file)
        assert not file.closed
    assert client.products.imports.wait(job, within_s=60).counts.created == 3


@pytest.mark.parametrize("given", [ndjson(2), io.BytesIO(ndjson(2)), iter([ndjson(1), ndjson(1)])])
def test_bytes_need_a_media_type(client: Client, given: Upload) -> None:
    with pytest.raises(ValueError, match="media_type"):
        client.products.imports.create(given)


def test_each_attempt_sends_all_bytes_while_an_earlier_one_still_reads(tmp_path: Path) -> None:
    (tmp_path / "mugs.ndjson").write_bytes(content := ndjson(10_000))
    with source(tmp_path / "mugs.ndjson") as opened:
        late, sent = opened.parts(), b""
        for part in opened.parts():
            sent += part
            next(late)
        assert sent == content


async def test_rows_may_come_from_an_async_iterator(async_client: AsyncClient) -> None:
    async def slowly() -> AsyncIterator[dict[str, Any]]:
        for row in rows(3):
            yield row

    job = await async_client.products.imports.create(slowly())
    done = await async_client.products.imports.wait(job, within_s=60)
    assert done.counts.created == 3
    assert [row.status async for row in async_client.products.imports.rows(done)] == ["created"] * 3


def test_failed_rows_can_be_saved_corrected_and_imported_again(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "mugs.csv"
    file.write_text("sku,name,price\nA,Mug,1.00\nB,Bowl,much\n")
    done = client.products.imports.wait(client.products.imports.create(file), within_s=60)
    assert done.status == "partially_succeeded"
    good, bad = client.products.imports.rows(done)
    assert (good.status, bad.status, bad.errors[0].code) == ("created", "failed", "invalid_money")
    failures = tmp_path / "failures.csv"
    client.products.imports.save_failures(done, failures)
    assert "B,Bowl,much" in failures.read_text()
    failures.write_text(failures.read_text().replace("much", "2.00"))
    corrected = client.products.imports.wait(client.products.imports.create(failures), within_s=60)
    assert corrected.counts.created == 1


async def test_a_report_that_cannot_be_read_leaves_the_former_file(
    client: Client, async_client: AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "failures.csv").write_text("corrected by hand")
    with pytest.raises(errors.NotFound):
        client.products.imports.save_failures("imp_unknown", tmp_path / "failures.csv")
    with pytest.raises(errors.NotFound):
        await async_client.products.imports.save_failures("imp_unknown", tmp_path / "failures.csv")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("failures.csv", "corrected by hand")]


def test_an_interrupted_upload_is_retried_from_the_start(account: Account) -> None:
    with through(account, lost_at_first) as (client, transport):
        job = client.products.imports.create(rows(200))
        sent = transport.to(f"/stores/{account.handle}/api/v3/app/products/imports", "POST")
        assert [answer.status_code for _, answer in sent] == [202, 202]
        assert client.products.imports.wait(job, within_s=60).counts.created == 200


def test_unusual_line_separators_do_not_split_a_row_of_the_report(client: Client) -> None:
    odd = "A\u2028B\x85C\x0bD"
    job = client.products.imports.create([{"sku": odd, "name": "Mug", "price": "much"}])
    [row] = client.products.imports.rows(client.products.imports.wait(job, within_s=60))
    assert row.key == {"sku": odd}


def test_an_invalid_file_is_refused_at_once(client: Client) -> None:
    with pytest.raises(codes.ValidationFailed):
        client.products.imports.create(b"sku,prise\nA,1\n", media_type="text/csv")
