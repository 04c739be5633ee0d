"""Runs schemathesis against its own service and reports the results; exits with 1 on any finding."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import click

from stoa.api import ENDPOINTS
from stoa.reference.document import inlined
from tests.fuzz import stock
from tests.fuzz.goods import fill
from tests.support.service import Account, Service

HERE = Path(__file__).parent
TOOL = Path(sys.prefix, "fuzz/bin/st")
UNREACHABLE = r"^http://127\.0\.0\.1:9/[a-z]{1,20}$"  # the discard port
Statuses = dict[str, Counter[int]]


@click.command()
@click.option(
    "--seeds", default="1,2,3", show_default=True, help="Comma-separated seeds; each gets its own run and store."
)
@click.option(
    "--cases", default=60, show_default=True, help="Random cases per operation, in addition to the fixed ones."
)
@click.option("--minutes", default=30, show_default=True, help="Time limit of one run.")
@click.option("--only", multiple=True, help="Fuzz only this operationId; may be repeated.")
@click.option("--stock", "as_is", is_flag=True, help="Run the tool without our hooks and configuration.")
def fuzz(seeds: str, cases: int, minutes: int, only: tuple[str, ...], *, as_is: bool) -> None:
    """Send valid and invalid requests to the API, with every check of schemathesis."""
    if not TOOL.exists():
        raise click.ClickException("schemathesis is not installed; use `make fuzz`")
    wrong = False
    with tempfile.TemporaryDirectory(prefix="stoa-fuzz-") as folder:
        for seed in seeds.split(","):
            wrong |= asyncio.run(_run(Path(folder, seed), int(seed), cases, minutes, only, as_is=as_is))
    sys.exit(wrong)


async def _run(folder: Path, seed: int, cases: int, minutes: int, only: tuple[str, ...], *, as_is: bool) -> bool:
    """One run; returns whether there is a finding."""
    with Service(folder, webhook_allow="127.0.0.1", app_concurrency=1000, token_seconds=86_400) as service:
        account = await service.account("fuzz", burst=100_000_000, refill=1_000_000)
        async with account.client() as client:
            ids = await fill(client)
        async with service.client() as client:
            description = (await client.get("/openapi.json")).json()
        (folder / "codes.json").write_text(json.dumps(_codes(description)))
        (folder / "openapi.json").write_text(json.dumps(_harmless(description)))
        before = len(service.output())
        options = [*_options(folder, account, seed, cases), *(f"--include-operation-id={name}" for name in only)]
        if as_is:
            stock.run(TOOL, options, folder, minutes)
            failed = False
        else:
            failed = _run_configured(options, folder, minutes, ids)
        statuses = _statuses(service.output()[before:])
    failures, unreached = _report(seed, statuses, only)
    if as_is:  # without our ids, the tool does not find the resources of every operation
        return stock.judge(folder) or failures
    _report_uncounted(folder / "uncounted")
    return failures or unreached or failed


def _run_configured(options: list[str], folder: Path, minutes: int, ids: dict[str, list[Any]]) -> bool:
    """Run the tool with our configuration and hooks; returns whether it has findings."""
    configuration = folder / "schemathesis.toml"
    configuration.write_text((HERE / "schemathesis.toml").read_text() + _dictionaries(ids))
    variables = {
        "STOA_FUZZ_CODES": f"{folder}/codes.json",
        "STOA_FUZZ_UNCOUNTED": f"{folder}/uncounted",
        "PYTHONPATH": str(HERE.parent.parent),
    }
    command = [str(TOOL), "--config-file", str(configuration), "run", *options]
    return subprocess.run(command, check=False, timeout=minutes * 60, env={**os.environ, **variables}).returncode != 0


def _options(folder: Path, account: Account, seed: int, cases: int) -> list[str]:
    url = account.url.removesuffix("/api/v3/app")
    access = f"Authorization: {account.headers['authorization']}"
    limits = ["--seed", str(seed), "--max-examples", str(cases), "--no-color"]
    return [f"{folder}/openapi.json", "--url", url, "--header", access, *limits]


def _harmless(description: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with webhook URLs that reach no foreign server."""
    example = description["paths"]["/api/v3/app/webhooks"]["post"]["requestBody"]["content"]["application/json"][
        "example"
    ]
    example["url"] = "http://127.0.0.1:9/stoa"
    for name in ("NewWebhook", "WebhookChanges"):
        url = description["components"]["schemas"][name]["properties"]["url"]
        url["pattern"] = UNREACHABLE
        url.pop("format", None)
    return description


def _codes(description: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """The error codes of each operation by status."""
    operations = [operation for item in description["paths"].values() for operation in item.values()]
    return {
        each["operationId"]: {
            status: answer.get("x-problem-codes", [])
            for status, answer in inlined(each["responses"], description).items()
        }
        for each in operations
    }


def _report_uncounted(file: Path) -> None:
    reasons = Counter(file.read_text().splitlines()) if file.exists() else Counter[str]()
    click.echo(f"Not counted, for reasons in tests/fuzz/reasons.py: {reasons.total()}")
    for reason, count in reasons.most_common():
        click.echo(f"  {count:>6}  {reason}")


def _dictionaries(ids: dict[str, list[Any]]) -> str:
    return "".join(f"\n[dictionaries.{name}]\nvalues = {json.dumps(values)}\n" for name, values in ids.items())


def _statuses(log: str) -> Statuses:
    """The response statuses of each operation, from the service's log."""
    found: Statuses = defaultdict(Counter)
    for line in log.splitlines():
        entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        if entry.get("event") == "request":
            found[entry["operation"]][entry["status"]] += 1
    return found


def _report(seed: int, statuses: Statuses, only: tuple[str, ...]) -> tuple[bool, bool]:
    """Print the statuses; returns whether there are 5xx, and whether an operation was never reached with a 2xx."""
    operations = [name for endpoint in ENDPOINTS if (name := endpoint.name) in only or not only]
    for name in operations:
        counts = "  ".join(f"{status}: {count}" for status, count in sorted(statuses[name].items()))
        click.echo(f"  {name:<28}{counts}")
    unreached = [name for name in operations if not any(200 <= status < 300 for status in statuses[name])]
    failures = sum(count for counts in statuses.values() for status, count in counts.items() if status >= 500)
    total = sum(sum(statuses[name].values()) for name in operations)
    reached = f"{len(operations) - len(unreached)} of {len(operations)} operations reached with a 2xx"
    click.echo(f"Seed {seed}: {total} requests, {failures} with 5xx, {reached}.")
    if unreached:
        click.echo(f"Never answered with a 2xx: {', '.join(unreached)}")
    return bool(failures), bool(unreached)


if __name__ == "__main__":
    fuzz()
