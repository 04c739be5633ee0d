"""What `stoa demo` promises beside its example calls."""

import json
import subprocess

from tests.support.service import STOA, Service


def test_a_receiver_on_this_machine_can_be_the_endpoint_of_an_app(demo: Service, variables: dict[str, str]) -> None:
    """In another terminal, the command has the environment of the reader, not that of the demo."""
    url = "http://localhost:8787/events"
    words = [*STOA, "app", "callbacks", variables["STOA_CLIENT_ID"], "--json"]
    try:
        made = subprocess.run(
            [*words, "--endpoint", url], env=demo.environment, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["endpoint_url"] == url
    finally:
        subprocess.run([*words, "--no-endpoint"], env=demo.environment, capture_output=True, check=True)
