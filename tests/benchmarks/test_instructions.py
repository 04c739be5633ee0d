"""The count of instructions: what callgrind writes, the requests that both revisions get, and the table."""

import json
import random
from pathlib import Path

import pytest
from benchmarks.drive import NUMBER, CannotMeasure, Request
from benchmarks.instructions import Cost, Pair, cells_of, change, filled, instructions_of, newest_dump

DUMP = """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 5971
part: 1

desc: Trigger: dump

positions: line
events: Ir
summary: 4471156

fn=(1) _PyEval_EvalFrameDefault
16 4471156

totals: 4479589
"""
ORDER = Request(
    "/stores/large/api/v3/app/orders",
    method="POST",
    first_id=10,
    last_id=39,
    headers={"Authorization": "Bearer token", "Idempotency-Key": f"/orders-{NUMBER}"},
    body=json.dumps({"external_id": f"web-{NUMBER}", "skus": ["SKU-%d-1", "SKU-%e-1", "SKU-%f-1"]}),
)


def test_the_instructions_of_a_dump_are_its_total() -> None:
    assert instructions_of(DUMP) == 4_479_589


@pytest.mark.parametrize("broken", ["", DUMP.replace("events: Ir", "events: Ir Dr"), DUMP.partition("totals")[0]])
def test_a_dump_that_counts_something_else_is_refused(broken: str) -> None:
    with pytest.raises(CannotMeasure):
        instructions_of(broken)


def test_the_newest_dump_of_a_process_has_the_largest_number(tmp_path: Path) -> None:
    for name in ("out.7", "out.7.9", "out.7.10", "out.71.11"):
        (tmp_path / name).touch()
    assert newest_dump(tmp_path, 7).name == "out.7.10"
    with pytest.raises(CannotMeasure):
        newest_dump(tmp_path, 8)


def test_both_revisions_get_the_same_requests() -> None:
    first, second = (filled(ORDER, random.Random("create-order 1")) for _ in range(2))
    assert first == second
    assert filled(ORDER, random.Random("create-order 2")) != first


def test_a_filled_request_has_three_ids_and_one_number() -> None:
    request = filled(ORDER, random.Random(1))
    body = json.loads(request.body)
    ids = [int(sku.split("-")[1]) for sku in body["skus"]]
    assert all(10 <= each <= 39 for each in ids)
    assert [(each - ids[0]) % 30 for each in ids] == [0, 10, 20]
    assert request.headers["Idempotency-Key"].removeprefix("/orders-") == body["external_id"].removeprefix("web-")
    assert NUMBER not in request.body


def test_a_change_names_the_order_that_was_placed() -> None:
    request = change(ORDER, "/stores/large/api/v3/app/orders/4711")
    assert (request.method, request.path) == ("PUT", "/stores/large/api/v3/app/orders/4711/status")
    assert request.headers["Idempotency-Key"] != ORDER.headers["Idempotency-Key"]


def test_the_table_shows_thousands_with_their_ratios() -> None:
    pair = Pair(Cost(1_000_000, 500_000, 2_000), Cost(1_020_000, 510_000, 2_100))
    assert cells_of({"one": [pair]}) == [
        ["one", "1", "1,000.0 -> 1,020.0", "1.020", "500.0 -> 510.0", "1.020", "1,500.0 -> 1,530.0", "1.020", "2,000 -> 2,100"]
    ]  # fmt: skip
