"""The alert rules, the dashboard and the runbook: they parse, query only exported metrics, and match each other."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.docs.pages import OPERATIONS
from tests.support.metrics import exported

RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((OPERATIONS / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
PROMTOOL = shutil.which("promtool")
DASHBOARD = msgspec.json.decode((OPERATIONS / "dashboard.json").read_bytes())
# The series with which each alert fires, and the value with which it does not; labels of the alert follow.
FIRING: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "StoaMetricsMissing": ({}, {"stoa_build_info": "1x60"}, {}),
    "StoaNotMeasured": ({"stoa_measured_timestamp_seconds": "0x60"}, {"stoa_measured_timestamp_seconds": "0+60x60"}, {}),
    "StoaFails": (
        {'stoa_refusals_total{code="unavailable"}': "0+60x60"}, {'stoa_refusals_total{code="not_found"}': "0+60x60"}, {}
    ),
    "StoaOverloaded": (
        {'stoa_shed_total{reason="database"}': "0+60x60"}, {'stoa_shed_total{reason="database"}': "60x60"},
        {"reason": "database"},
    ),
    "StoaSlow": (
        {'stoa_request_seconds_bucket{le="1"}': "0+9x60", 'stoa_request_seconds_bucket{le="2.5"}': "0+10x60",
         'stoa_request_seconds_bucket{le="+Inf"}': "0+10x60"},
        {'stoa_request_seconds_bucket{le="1"}': "0+10x60", 'stoa_request_seconds_bucket{le="+Inf"}': "0+10x60"},
        {},
    ),
    "StoaEventLoopBlocked": (
        {'stoa_event_loop_lag_seconds_bucket{process="web",le="0.25"}': "0+9x60",
         'stoa_event_loop_lag_seconds_bucket{process="web",le="0.5"}': "0+10x60",
         'stoa_event_loop_lag_seconds_bucket{process="web",le="+Inf"}': "0+10x60"},
        {'stoa_event_loop_lag_seconds_bucket{process="web",le="0.001"}': "0+10x60",
         'stoa_event_loop_lag_seconds_bucket{process="web",le="+Inf"}': "0+10x60"},
        {"process": "web"},
    ),
    "StoaDatabaseErrors": (
        {'stoa_database_errors_total{class="53"}': "0+60x60"}, {'stoa_database_errors_total{class="23"}': "0+60x60"},
        {"class": "53"},
    ),
    "StoaPoolExhausted": (
        {'stoa_database_wait_timeouts_total{pool="requests"}': "0+1x60"},
        {'stoa_database_wait_timeouts_total{pool="requests"}': "7x60"},
        {"pool": "requests"},
    ),
    "StoaReplicaAway": ({"stoa_replica_away": "1x60"}, {"stoa_replica_away": "0x60"}, {}),
    "StoaReplicaBehind": ({"stoa_replica_lag_seconds": "0+60x60"}, {"stoa_replica_lag_seconds": "1x60"}, {}),
    "StoaShardAway": (
        {'stoa_shard_away{shard="east"}': "1x60"}, {'stoa_shard_away{shard="east"}': "0x60"}, {"shard": "east"}
    ),
    # A shard that is away has old copies, too, but one alert is enough.
    "StoaShardCopiesOld": (
        {'stoa_shard_copy_age_seconds{shard="east"}': "0+60x60", 'stoa_shard_away{shard="east"}': "0x60"},
        {'stoa_shard_copy_age_seconds{shard="east"}': "0+60x60", 'stoa_shard_away{shard="east"}': "1x60",
         'stoa_shard_copy_age_seconds{shard="west"}': "0.2x60"},
        {"shard": "east"},
    ),
    "StoaMoveLeft": ({"stoa_shard_moves_left": "1x60"}, {"stoa_shard_moves_left": "0x60"}, {}),
    # While a shard is away, its messages wait, but one alert is enough.
    "StoaMessageWaits": (
        {"stoa_shard_oldest_message_seconds": "0+60x60", 'stoa_shard_away{shard="east"}': "0x60"},
        {"stoa_shard_oldest_message_seconds": "0+60x60", 'stoa_shard_away{shard="east"}': "1x60"},
        {},
    ),
    "StoaSlotKeepsLog": (
        {'stoa_replication_slot_bytes{shard=""}': "0+500000000x60"}, {'stoa_replication_slot_bytes{shard=""}': "5000000000x60"}, {}
    ),
    # One shard without a worker is enough.
    "StoaNoDeliveryWorker": (
        {"stoa_webhook_workers": "1x60", 'stoa_webhook_workers{shard="east"}': "0x60"},
        # Of a shard that was removed, nothing is known.
        {"stoa_webhook_workers": "1x60", 'stoa_webhook_workers{shard="gone"}': "NaN " * 60},
        {"shard": "east"},
    ),
    "StoaEventsNotRouted": (
        {"stoa_webhook_oldest_unrouted_seconds": "0+60x60"}, {"stoa_webhook_oldest_unrouted_seconds": "1x60"}, {}
    ),
    "StoaDeliveriesStopped": ({"stoa_webhook_late_seconds": "0+60x60"}, {"stoa_webhook_late_seconds": "0x60"}, {}),
    "StoaDeliveriesLate": (
        {'stoa_webhook_latency_seconds_bucket{le="5"}': "0+1x60", 'stoa_webhook_latency_seconds_bucket{le="30"}': "0+9x60",
         'stoa_webhook_latency_seconds_bucket{le="+Inf"}': "0+9x60"},
        {'stoa_webhook_latency_seconds_bucket{le="5"}': "0+9x60", 'stoa_webhook_latency_seconds_bucket{le="+Inf"}': "0+9x60"},
        {},
    ),
    # Three of four receivers are dead. Their open breakers leave only probes: one attempt in 500 fails.
    "StoaReceiversFail": (
        {"stoa_webhook_open_breakers": "3x60", "stoa_webhook_receivers": "4x60",
         'stoa_webhook_attempts_total{outcome="failed"}': "0+1x60", 'stoa_webhook_attempts_total{outcome="succeeded"}': "0+499x60"},
        {"stoa_webhook_open_breakers": "3x60", "stoa_webhook_receivers": "400x60"},
        {},
    ),
    "StoaDeliveriesPending": (
        {"stoa_webhook_oldest_pending_seconds": "21600+60x60"}, {"stoa_webhook_oldest_pending_seconds": "21600x60"}, {}
    ),
    "StoaImportsStuck": (
        {"stoa_import_oldest_waiting_seconds": "0+60x60"}, {"stoa_import_oldest_waiting_seconds": "5x60"}, {}
    ),
    "StoaMailStuck": (
        {"stoa_mail_oldest_waiting_seconds": "3000+60x60"}, {"stoa_mail_oldest_waiting_seconds": "0+60x60"}, {}
    ),
    "StoaMailGivenUp": ({"stoa_mail_given_up": "6x60"}, {"stoa_mail_given_up": "5x60"}, {}),
    "StoaProcessesRestart": (
        {'stoa_process_restarts_total{process="web"}': "0+1x60"}, {'stoa_process_restarts_total{process="web"}': "3x60"},
        {"process": "web"},
    ),
    "StoaMemoryHigh": (
        {'stoa_process_memory_bytes{process="web",number="0"}': "2000000000x60"},
        {'stoa_process_memory_bytes{process="web",number="0"}': "200000000x60"},
        {"process": "web"},
    ),
    "StoaFilesRunOut": (
        {'stoa_process_open_files{process="web",number="0"}': "9500x60"},
        {'stoa_process_open_files{process="web",number="0"}': "95x60"},
        {"process": "web"},
    ),
    "StoaClockSkew": ({"stoa_clock_offset_seconds": "-9x60"}, {"stoa_clock_offset_seconds": "-1x60"}, {}),
    # The clock of the cases begins at 0, when the backup is 26 hours old.
    "StoaBackupOld": ({"stoa_backup_timestamp_seconds": "-93600x130"}, {"stoa_backup_timestamp_seconds": "-93600+60x130"}, {}),
}  # fmt: skip

AFTER = {"StoaBackupOld": "2h"}  # when an alert has fired, if not after 50 minutes
RUNBOOK = "https://docs.example.com/operations/runbook.md"


def series() -> dict[str, set[str]]:
    """Every series that a service may export, with the names of its labels."""
    found: dict[str, set[str]] = {}
    for family in exported():
        labels = {name for sample in family.samples for name in sample.labels}
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        for suffix in suffixes:
            found[f"{family.name}{suffix}"] = labels
    return found


def test_every_rule_has_what_an_alert_needs() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert re.fullmatch(r"Stoa[A-Z]\w+", rule["alert"])
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOK}#{rule['alert'].lower()}"
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_rules_and_the_dashboard_query_only_exported_metrics() -> None:
    exists = series()
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    for query in [*queries, *(rule["expr"] for rule in RULES)]:
        named = set(re.findall(r"stoa_\w+", query))
        assert named, query
        assert named <= set(exists), query


def test_the_dashboard_shows_every_metric() -> None:
    shown = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    assert [family.name for family in exported() if family.name not in shown] == []
    positions = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    assert len(set(positions)) == len(positions)


def test_missing_data_raises_an_alert() -> None:
    assert sum("absent(" in rule["expr"] for rule in RULES) >= 2


def test_the_runbook_has_an_entry_for_each_alert_in_order() -> None:
    text = (OPERATIONS / "runbook.md").read_text()
    # Entries about what raises no alert follow, and have a sentence as their title.
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert titles[: len(RULES)] == [rule["alert"] for rule in RULES]
    assert not [title for title in titles[len(RULES) :] if " " not in title]
    for entry in text.split("\n## ")[1:]:
        assert re.search(r"^1\. |^\| Class", entry, re.MULTILINE), f"{entry.splitlines()[0]} says nothing to do"


def rendered(text: str, labels: dict[str, str]) -> str:
    """An annotation as Prometheus fills it in; the part about a shard is missing for the directory."""
    text = re.sub(r"{{ with \$labels.(\w+) }}(.*?){{ end }}", lambda m: m[2] if m[1] in labels else "", text)
    for label, value in labels.items():
        text = text.replace("{{ $labels." + label + " }}", value).replace("{{ . }}", value)
    return text


def cases(rule: dict[str, Any], rules: Path) -> dict[str, Any]:
    """A case in which the rule of a file fires, and one in which it does not, in the format of `promtool test rules`."""
    fires, quiet, labels = FIRING[rule["alert"]]
    notes = {name: rendered(text, labels) for name, text in rule["annotations"].items()}
    expected = {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": notes}
    tests = [
        {
            "name": f"{rule['alert']} {'fires' if alerts else 'does not fire'}",
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in given.items()],
            "alert_rule_test": [{
                "eval_time": AFTER.get(rule["alert"], "50m"), "alertname": rule["alert"], "exp_alerts": alerts,
            }],
        }
        for given, alerts in ((fires, [expected]), (quiet, []))
    ]  # fmt: skip
    return {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}


def test_every_alert_has_a_case() -> None:
    assert set(FIRING) == {rule["alert"] for rule in RULES}
    for fires, quiet, _ in FIRING.values():
        assert {re.split(r"[ {]", name)[0] for name in (*fires, *quiet)} <= set(series())


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed; the Debian package prometheus contains it")
def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """Each rule has a file of its own, because promtool evaluates every rule of a file in every case."""
    files: list[Path] = []
    for rule in RULES:
        rules, file = tmp_path / f"{rule['alert']}.rules.yml", tmp_path / f"{rule['alert']}.cases.yml"
        rules.write_text(yaml.safe_dump({"groups": [{"name": "stoa", "rules": [rule]}]}))
        file.write_text(yaml.safe_dump(cases(rule, rules)))
        files.append(file)
    checked = [str(PROMTOOL), "check", "rules", str(OPERATIONS / "alerts.yml")]
    for command in (checked, [str(PROMTOOL), "test", "rules", *map(str, files)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
