"""Load a store into DuckDB; run it as often as you like. The credentials come from the environment or .dlt/secrets.toml."""

import dlt
from stoa_source import stoa

pipeline = dlt.pipeline("stoa", destination="duckdb", dataset_name="shop")
print(pipeline.run(stoa()))
for table, rows in (pipeline.last_trace.last_normalize_info.row_counts or {}).items():
    print(f"{table}: {rows} rows")
