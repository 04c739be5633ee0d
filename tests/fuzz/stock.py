"""Schemathesis without hooks and configuration of ours: its report is read afterwards, and each failure is judged."""

import base64
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from tests.fuzz.reasons import reason

OPTIONS = ("--checks=all", "--continue-on-failure", "--no-shrink", "--generation-database=none", "--request-timeout=60")
_REPORT, _OUTPUT = "report.ndjson", "output.txt"
_SHOWN = 3  # examples of each kind of finding
_LONGEST = 1_500
_PYTHON_NULL = re.compile(r"^GET [^ ]+[?&]\w+_id=None[& ]")


class Finding(msgspec.Struct):
    """A failed check, with the request and the response."""

    kind: str
    message: str
    operation: str  # method and path template
    request: str
    status: int
    content: bytes


def run(tool: Path, options: list[str], folder: Path, minutes: int) -> None:
    """Run the tool in a folder without a configuration file; its output repeats what the report contains."""
    command = [str(tool), "run", *options, *OPTIONS, "--report=ndjson", f"--report-ndjson-path={folder / _REPORT}"]
    with (folder / _OUTPUT).open("wb") as output:
        subprocess.run(command, check=False, timeout=minutes * 60, cwd=folder, stdout=output, stderr=output)


def findings(report: Path) -> Iterator[Finding]:
    """Every failed check in a report in the format NDJSON."""
    with report.open() as lines:
        for line in lines:
            if line.startswith('{"ScenarioFinished"'):
                yield from _of_scenario(json.loads(line)["ScenarioFinished"]["recorder"])


def _of_scenario(recorder: dict[str, Any]) -> Iterator[Finding]:
    for case, checks in recorder.get("checks", {}).items():
        for check in checks:
            if failure := check.get("failure_info", {}).get("failure"):
                exchange = recorder["interactions"].get(failure["case_id"]) or recorder["interactions"].get(case, {})
                sent, received = exchange.get("request", {}), exchange.get("response", {})
                yield Finding(
                    failure["type"],
                    failure["message"],
                    failure["operation"],
                    f"{sent.get('method')} {sent.get('uri')} {sent.get('headers')} {_bytes(sent.get('body'))!r}",
                    received.get("status_code", 0),
                    _bytes(received.get("content")),
                )


def _bytes(value: dict[str, str] | None) -> bytes:
    return base64.b64decode(value["$base64"]) if value else b""


def judge(folder: Path) -> bool:
    """Print the failures that are no findings by their reasons, and all others; returns whether there are others."""
    reasons, others = Counter[str](), dict[tuple[str, str], list[Finding]]()
    for each in findings(folder / _REPORT):
        if why := _reason(each):
            reasons[f"{each.kind}: {why}"] += 1
        else:
            others.setdefault((each.kind, each.operation), []).append(each)
    summary = (folder / _OUTPUT).read_text().rpartition(" SUMMARY ")[2]
    click.echo(f"The summary of the tool:\n{summary}")
    click.echo(f"Reported by the tool, and not true: {reasons.total()}")
    for why, count in reasons.most_common():
        click.echo(f"  {count:>6}  {why}")
    click.echo(f"Findings: {sum(map(len, others.values()))}")
    for (kind, operation), found in others.items():
        click.echo(f"\n{len(found)} x {kind}, {operation}")
        for each in found[:_SHOWN]:
            click.echo(
                f"  {each.request[:_LONGEST]}\n  {each.status} {each.content[:_LONGEST].decode(errors='replace')}"
            )
            click.echo(f"  {each.message[:_LONGEST]}")
    return bool(others)


def _reason(found: Finding) -> str:
    """Why a failure is not a finding: a rule that OpenAPI cannot express, or what the tool does without configuration."""
    if found.kind == "AcceptedNegativeData":
        if 400 <= found.status < 500:
            return f"refused with {found.status}, which the tool does not count as a refusal"
        if found.operation.endswith("/imports"):
            return "an import reports invalid rows later"
    if found.kind == "RejectedPositiveData" and found.status == 412:
        return "If-Match names another version"
    if found.kind == "RejectedPositiveData" and json.loads(found.content)["code"] == "idempotency_key_reused":
        return "the tool sends an Idempotency-Key twice"
    if found.kind == "RejectedPositiveData" and _PYTHON_NULL.search(found.request):
        return "the tool sends None, which Python writes for the null of an earlier response"
    return reason(found.kind, found.message, found.status, found.content)
