"""Sets the stock of a store to the counts of a warehouse.

Reads a CSV file with the columns `sku` and `on_hand`, compares it with the stock levels of the store, and adjusts those
that differ. Run it as often as you like: without differences it writes nothing.

    python stock_sync.py warehouse.csv
"""

import csv
import sys
from pathlib import Path

from stoa_client import ApiError, Client, models

BATCH = 250


def counted(file: Path) -> dict[str, int]:
    """The counts of the warehouse by SKU."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        if rows.fieldnames != ["sku", "on_hand"]:
            raise SystemExit("the first line must be: sku,on_hand")
        counts: dict[str, int] = {}
        for row in rows:
            if not row["sku"] or not (row["on_hand"] or "").isdecimal():
                raise SystemExit(f"not a SKU and a number in line {rows.line_num}")
            counts[row["sku"]] = int(row["on_hand"])
    return counts


def adjust(stoa: Client, part: list[tuple[models.StockLevel, int]]) -> int:
    """Set the stock of some variants; returns how many of them failed."""
    try:
        done = stoa.products.inventory.adjust(
            reason="stocktake",
            mode="independent",
            # With `compare_quantity`, an order that is shipped in the meantime is not overwritten: the next run corrects it.
            items=[
                {
                    "variant_id": level.variant_id,
                    "op": "set",
                    "quantity": quantity,
                    "compare_quantity": level.stock.on_hand,
                }
                for level, quantity in part
            ],
        )
    except ApiError as error:
        print(error, file=sys.stderr)
        return len(part)
    for item in done.failures:
        print(part[item.index][0].sku, item.error and item.error.detail, file=sys.stderr)
    return len(done.failures)


def main() -> int:
    counts = counted(Path(sys.argv[1] if len(sys.argv) > 1 else "warehouse.csv"))
    with Client.from_environment() as stoa:
        changes: list[tuple[models.StockLevel, int]] = []
        for level in stoa.products.inventory.list(limit=250):
            quantity = counts.pop(level.sku, None) if level.sku else None
            if quantity is not None and quantity != level.stock.on_hand:
                changes.append((level, quantity))
        failed = sum(adjust(stoa, changes[start : start + BATCH]) for start in range(0, len(changes), BATCH))
    for sku in counts:
        print(f"{sku}: no such SKU in the store", file=sys.stderr)
    print(f"{len(changes) - failed} changed, {failed} failed, {len(counts)} unknown")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
