"""Which modules a serving process loads."""

import subprocess
import sys

SERVE_THE_REFERENCE = """
import sys
import stoa.app
from stoa.reference.page import addresses
pages = [render() for render in addresses().values()]
print(*sorted(sys.modules))
"""


def test_a_process_that_serves_the_reference_loads_no_http_client() -> None:
    run = subprocess.run([sys.executable, "-c", SERVE_THE_REFERENCE], capture_output=True, text=True, check=True)
    loaded = {name for name in run.stdout.split() if name.startswith(("httpx", "httpcore", "stoa_client"))}
    assert loaded == set()
