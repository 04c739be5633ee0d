"""Load a store into DuckDB: the first run loads everything, each further run what changed."""

import os

import dlt
from stoa_source import stoa

pipeline = dlt.pipeline("stoa", destination="duckdb", dataset_name="shop")
loaded = pipeline.run(
    stoa(os.environ["STOA_BASE_URL"], os.environ["STOA_CLIENT_ID"], os.environ["STOA_CLIENT_SECRET"])
)
print(loaded)
