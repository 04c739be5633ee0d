"""A release after this tree: this tree, with migrations of every phase on hot tables, and a function with another argument."""

import shutil
from pathlib import Path

from tests.upgrades.releases import ROOT

PROBE = "upgrade_probe"
MIGRATIONS = {
    "9001_probe.sql": f"""
ALTER TABLE products ADD COLUMN {PROBE} text;
ALTER TABLE products ADD CONSTRAINT {PROBE}_check CHECK ({PROBE} <> '') NOT VALID;
ALTER TABLE orders ADD COLUMN {PROBE} text DEFAULT 'none';
CREATE TABLE {PROBE}s (
    store_id   bigint NOT NULL,
    product_id bigint NOT NULL,
    CONSTRAINT {PROBE}s_pkey PRIMARY KEY (store_id, product_id),
    CONSTRAINT {PROBE}s_fkey FOREIGN KEY (store_id, product_id) REFERENCES products (store_id, id)
);
COMMENT ON TABLE {PROBE}s IS 'store';
""",
    "9002_fill_probe.sql": f"""-- phase: backfill
WITH batch AS (
    SELECT id FROM products WHERE store_id = $1 AND id > $2 ORDER BY id LIMIT $3 FOR NO KEY UPDATE
), filled AS (
    UPDATE products p SET {PROBE} = upper(p.slug) FROM batch b
     WHERE p.store_id = $1 AND p.id = b.id AND p.{PROBE} IS NULL
)
SELECT max(id) FROM batch;
""",
    "9003_index_probe.sql": f"""-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS {PROBE}_idx ON products (store_id, {PROBE});
CREATE INDEX CONCURRENTLY IF NOT EXISTS {PROBE}_orders_idx ON orders (store_id, {PROBE}, id);
ALTER TABLE products VALIDATE CONSTRAINT {PROBE}_check;
""",
    "9004_drop_default.sql": f"""-- phase: contract
ALTER TABLE orders ALTER COLUMN {PROBE} DROP DEFAULT;
""",
}
# The old release calls the function with three arguments, this one with four.
_EDITS = {
    "orders/functions/take_order_numbers.sql": ("in_lines integer,", "in_lines integer, in_probe text,"),
    "orders/queries.py": ("FROM take_order_numbers($1, $2, $3)", "FROM take_order_numbers($1, $2, $3, 'probe')"),
}


def write_later_release(folder: Path) -> Path:
    """Write the release into a folder with the layout of this repository, and with the bytecode of what it leaves unchanged."""
    package = folder / "src/stoa"
    shutil.copytree(ROOT / "src/stoa", package)
    for name in ("sdk", "docs", "requirements", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    for name, sql in MIGRATIONS.items():
        (package / "schema" / name).write_text(sql)
    for name, (before, after) in _EDITS.items():
        file = package / name
        text = file.read_text()
        assert text.count(before) == 1, f"{name} has changed; adapt _EDITS"
        file.write_text(text.replace(before, after))
    return folder
