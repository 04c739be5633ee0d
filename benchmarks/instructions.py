"""`python -m benchmarks.instructions REVISION`: counts the instructions of a request, in this tree and in other revisions.

A rate on a shared machine says little about a change of a few percent. The number of instructions is nearly the same whatever else
the machine does. All revisions serve the same data under callgrind, and get the same requests one after the other. Instructions of
the kernel are not counted, and neither is periodic work (`benchmarks/steady`).
"""

import asyncio
import http.client
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec
from rich.console import Console
from rich.table import Table
from tests.support.termination import exit_on_sigterm

from benchmarks import report
from benchmarks.compare import ROOT, Loading, checked_out, serving
from benchmarks.drive import NUMBER, CannotMeasure, Request, Target
from benchmarks.results import describe_machine
from benchmarks.services import free_port, processes_of, running, when_ready, workers_of
from stoa.db.connection import connect
from stoa.db.embedded import MAJOR_VERSION
from stoa.db.query import Query

THIS = "this tree"
CHANGE = "change-order"  # an order's status is changed once, so each request needs a new order
ROWS = ("listing", "one", "orders", "token", "create-order", "create-product", "adjust", "pay-order", CHANGE)
WARM_UP = 40  # requests: statements get generic plans after five, and Python specializes its bytecode
SETTLE = 4  # requests after callgrind begins to count, because the first ones translate code again
ANSWER_S, END_S, START_S, CONTROL_S = 120, 60, 120, 30
_STEADY = Path(__file__).with_name("steady")
_OPTIONS = ("--tool=callgrind", "--instr-atstart=no", "--collect-jumps=no", "--dump-instr=no", "--separate-threads=no")
# Work that depends on the time since the last checkpoint or on the clock; the same request would cost more or less each time.
_STEADY_DATABASE = {
    "autovacuum": "off",
    "full_page_writes": "off",
    "checkpoint_timeout": "1d",
    "max_wal_size": "100GB",
}
# vgdb finds a process by its own values of them, and PostgreSQL overwrites its environment.
_WITHOUT_NAMES = ("env", "--unset=LOGNAME", "--unset=HOST")
# callgrind counts an instruction for each byte of `rep movsb`, with which glibc copies a few kilobytes and more, and which a processor
# runs at 32 bytes or more in a cycle. With a high threshold glibc copies with instructions for 32 bytes.
_COPIES = {
    "GLIBC_TUNABLES": ":".join(f"glibc.cpu.x86_rep_{kind}_threshold={2**40}" for kind in ("movsb", "stosb")),
}
_BACKENDS = Query(
    int,
    """SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
          AND pid <> pg_backend_pid() ORDER BY pid""",
    unbound="the processes of the server are no rows of a store",
)
_COLUMNS = (
    "row",
    "run",
    "worker, thousands",
    "ratio",
    "PostgreSQL, thousands",
    "ratio",
    "sum, thousands",
    "ratio",
    "bytes",
)


class Cost(msgspec.Struct, frozen=True):
    """The instructions of one request, and the size of its response's body."""

    worker: float
    database: float
    response_bytes: float

    @property
    def total(self) -> float:
        return self.worker + self.database

    def summary(self) -> str:
        parts = f"{self.worker / 1000:,.1f} + {self.database / 1000:,.1f}"
        return f"{parts} = {self.total / 1000:,.1f} thousand instructions, {self.response_bytes:,.0f} bytes"


class Pair(msgspec.Struct, frozen=True):
    """The cost of a row in each revision."""

    before: Cost
    after: Cost

    def ratio(self, figure: str) -> float:
        return getattr(self.after, figure) / getattr(self.before, figure)


def instructions_of(dump: str) -> int:
    """The number of instructions in a file that callgrind wrote."""
    if "\nevents: Ir\n" not in dump:
        raise CannotMeasure("a file of callgrind does not count instructions")
    found = re.search(r"^totals: (\d+)$", dump, re.MULTILINE)
    if found is None:
        raise CannotMeasure("a file of callgrind has no total")
    return int(found[1])


def newest_dump(folder: Path, process_id: int) -> Path:
    """The last of the numbered files that callgrind wrote for a process."""
    dumps = [file for file in folder.glob(f"out.{process_id}.*") if file.suffix[1:].isdigit()]
    if not dumps:
        raise CannotMeasure(f"callgrind wrote no file for process {process_id}")
    return max(dumps, key=lambda file: int(file.suffix[1:]))


def filled(request: Request, chooser: random.Random) -> Request:
    """The request with its placeholders replaced, as `requests.lua` does it."""
    first, span = request.first_id, request.last_id - request.first_id + 1
    chosen, number = chooser.randrange(span), f"{chooser.randrange(10**17, 10**18):018d}"

    def text(template: str) -> str:
        for index, name in enumerate(("%d", "%e", "%f")):
            template = template.replace(name, str(first + (chosen + span // 3 * index) % span))
        return template.replace(NUMBER, number)

    headers = {name: text(value) for name, value in request.headers.items()}
    return msgspec.structs.replace(request, path=text(request.path), body=text(request.body), headers=headers)


def change(order: Request, placed_at: str) -> Request:
    """A request that changes the status of the order at this address, which the request `order` placed."""
    headers = {**order.headers, "Idempotency-Key": f"change-{placed_at}"}
    path = order.path.rpartition("/")[0] + f"/orders/{placed_at.rpartition('/')[2]}/status"
    return Request(path, method="PUT", headers=headers, body='{"status": "processing"}')


class Client:
    """One connection that is kept alive, and its responses."""

    def __init__(self, origin: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=ANSWER_S)
        self.response_bytes = 0

    def send(self, request: Request) -> str:
        """Send a filled request; returns the address of what it created. A refused request invalidates the measurement."""
        body = request.body.encode() if request.body else None
        self._connection.request(request.method, request.path, body, dict(request.headers))
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= http.HTTPStatus.MULTIPLE_CHOICES:
            raise CannotMeasure(f"{request.path}: {response.status} {content[:500].decode(errors='replace')}")
        self.response_bytes += len(content)
        return response.headers.get("Location", "")

    def close(self) -> None:
        self._connection.close()


class Callgrind(msgspec.Struct, frozen=True):
    """Processes that run under callgrind, the folder of their files, and the command prefix that runs a command as their user."""

    folder: Path
    as_owner: Sequence[str] = ()

    def command(self) -> list[str]:
        """The command prefix that runs a command under callgrind, and every process that it starts."""
        return [
            *self.as_owner, valgrind("valgrind"), *_OPTIONS, "--trace-children=yes", f"--vgdb-prefix={self.folder}/vgdb",
            f"--callgrind-out-file={self.folder}/out.%p",
        ]  # fmt: skip

    def tell(self, process_id: int, *words: str) -> None:
        """Have callgrind do something to a process, also to one that waits; it obeys only its own user."""
        program = [*_WITHOUT_NAMES, *self.as_owner, valgrind("vgdb")]
        command = [*program, f"--vgdb-prefix={self.folder}/vgdb", f"--pid={process_id}", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CONTROL_S)
        except subprocess.TimeoutExpired as error:
            raise CannotMeasure(f"callgrind of process {process_id} does not answer within {CONTROL_S} s") from error
        if done.returncode:
            raise CannotMeasure(f"callgrind of process {process_id} does not answer: {done.stderr[-500:]}")

    def take(self, process_id: int) -> Path:
        """Write what was counted since the last time; returns the file."""
        self.tell(process_id, "dump")
        return newest_dump(self.folder, process_id)


class Counted(msgspec.Struct, frozen=True):
    """The service of one revision under callgrind."""

    origin: str
    dsn: str
    requests: Mapping[str, Request]
    worker: int
    of_service: Callgrind
    of_database: Callgrind

    def cost(self, name: str, number: int, seed: str, keep: Path | None) -> Cost:
        """The mean of so many requests of a row; the files of callgrind go to the folder `keep`."""
        client = Client(self.origin)
        requests = iter(list(self._requests(name, seed, WARM_UP + SETTLE + number, client)))
        try:
            send(client, requests, WARM_UP)
            counted = self._processes()
            for process_id, callgrind in counted.items():
                callgrind.tell(process_id, "instrumentation", "on")
            send(client, requests, SETTLE)
            for process_id, callgrind in counted.items():
                callgrind.tell(process_id, "zero")
            client.response_bytes = 0
            send(client, requests, number)
            files = {process_id: callgrind.take(process_id) for process_id, callgrind in counted.items()}
            for process_id, callgrind in counted.items():
                callgrind.tell(process_id, "instrumentation", "off")
            if self._processes().keys() != counted.keys():
                raise CannotMeasure(f"{name}: the worker opened or closed a connection to the database meanwhile")
        finally:
            client.close()
        found = {process_id: instructions_of(file.read_text()) for process_id, file in files.items()}
        for process_id, file in files.items():
            if keep is not None:
                shutil.copyfile(file, keep / ("worker" if process_id == self.worker else f"postgres.{process_id}"))
            file.unlink()
        worker = found.pop(self.worker)
        return Cost(worker / number, sum(found.values()) / number, client.response_bytes / number)

    def _requests(self, name: str, seed: str, number: int, client: Client) -> Iterator[Request]:
        chooser = random.Random(seed)
        if name == CHANGE:
            order = self.requests["create-order"]
            for _ in range(number):
                yield change(order, client.send(filled(order, chooser)))
            return
        for _ in range(number):
            yield filled(self.requests[name], chooser)

    def _processes(self) -> dict[int, Callgrind]:
        """The web worker, and the processes of the database server that work for it."""
        backends = asyncio.run(_backends(self.dsn))
        return {self.worker: self.of_service, **dict.fromkeys(backends, self.of_database)}


def valgrind(name: str) -> str:
    """The path of one of valgrind's programs."""
    found = shutil.which(name)
    if found is None:
        raise CannotMeasure(
            "valgrind is missing: install it with your package manager, for example apt-get install valgrind"
        )
    return found


def send(client: Client, requests: Iterator[Request], number: int) -> None:
    for _ in range(number):
        client.send(next(requests))


async def _backends(dsn: str) -> list[int]:
    db = await connect(dsn, timeout_s=START_S, statement_timeout_ms=0)
    try:
        return await _BACKENDS.all(db)
    finally:
        await db.close()


@contextmanager
def under_callgrind(loading: Loading, tree: Path, folder: Path) -> Generator[Counted, None, None]:
    """Replace the service of a tree and its database server by ones that run under callgrind, on the same data."""
    target = loading.service().target
    started = processes_of(loading.process.pid)
    server = _one(pid for pid in started if b"cluster_name" in b"".join(_command(pid)))
    service = _one(pid for pid in started if b"serve" in _command(pid) and b"--port" in _command(pid))
    settings = {name: value for name, value in _environment(service).items() if name.startswith("STOA_")}
    postgres, owner = [os.fsdecode(part) for part in _command(server)], Path(f"/proc/{server}").stat()
    _stop(service, signal.SIGTERM)
    _stop(server, signal.SIGINT)
    # PostgreSQL refuses to run as root.
    uid, gid = owner.st_uid, owner.st_gid
    as_owner = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"] if os.geteuid() == 0 else []
    of_service, of_database = Callgrind(folder / "service"), Callgrind(folder / "database", as_owner)
    for each in (of_service, of_database):
        each.folder.mkdir(0o711)
    if as_owner:
        os.chown(of_database.folder, uid, gid)
    options = [part for name, value in _STEADY_DATABASE.items() for part in ("-c", f"{name}={value}")]
    with ExitStack() as stack:
        command = [*of_database.command(), *postgres, *options]
        stack.enter_context(running(command, {**_COPIES, "LC_ALL": "C"}, folder / "postgres.log", Path("/")))
        dsn = settings["STOA_DATABASE_URL"]
        _wait_for(dsn)
        port = free_port()
        paths = os.pathsep.join(map(str, (_STEADY, tree, tree / "src")))
        environment = {
            **settings,
            **_COPIES,
            "PYTHONPATH": paths,
            "PYTHONHASHSEED": "0",
            "STOA_WORKERS": "1",
            "STOA_SHUTDOWN_DELAY_SECONDS": "0",
        }
        command = [sys.executable, "-m", "stoa", "serve", "--port", str(port), "--no-background", "--no-migrate"]
        main = stack.enter_context(
            running([*of_service.command(), *command], environment, folder / "service.log", tree)
        )
        origin = when_ready(f"http://127.0.0.1:{port}", "/ready", ANSWER_S)
        yield Counted(origin, dsn, target.requests, _one(workers_of(main)), of_service, of_database)


def _one(found: Iterable[int]) -> int:
    every = list(found)
    if len(every) != 1:
        raise CannotMeasure(f"a service has {len(every)} processes where one is expected")
    return every[0]


def _command(process_id: int) -> list[bytes]:
    return Path(f"/proc/{process_id}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")


def _environment(process_id: int) -> dict[str, str]:
    pairs = Path(f"/proc/{process_id}/environ").read_bytes().decode().split("\0")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _stop(process_id: int, number: signal.Signals) -> None:
    """Stop a process of another one, which does not wait for it."""
    os.kill(process_id, number)
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.1)
    raise CannotMeasure(f"process {process_id} did not stop within {END_S} s")


def _wait_for(dsn: str) -> None:
    """Wait until the database server accepts connections."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            asyncio.run(_backends(dsn))
        except Exception as error:
            if time.monotonic() > deadline:
                raise CannotMeasure("the database server did not start under callgrind") from error
            time.sleep(0.5)
        else:
            return


def cells_of(rows: Mapping[str, Sequence[Pair]]) -> list[list[str]]:
    """A line for each run of each row."""
    lines: list[list[str]] = []
    for name, pairs in rows.items():
        for run, pair in enumerate(pairs, 1):
            cells = [name, str(run)]
            for figure in ("worker", "database", "total"):
                before, after = (getattr(cost, figure) / 1000 for cost in (pair.before, pair.after))
                cells += [f"{before:,.1f} -> {after:,.1f}", f"{pair.ratio(figure):.3f}"]
            lines.append([*cells, f"{pair.before.response_bytes:,.0f} -> {pair.after.response_bytes:,.0f}"])
    return lines


def table_of(revision: str, rows: Mapping[str, Sequence[Pair]]) -> Table:
    table = Table(title=f"Instructions of a request, {revision} -> this tree")
    for index, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if index else "left")
    for cells in cells_of(rows):
        table.add_row(*cells)
    return table


def as_markdown(command: str, requests: int, revisions: Mapping[str, Mapping[str, Sequence[Pair]]]) -> str:
    parts = [
        f"Made by `{command}`.\n",
        f"{describe_machine(MAJOR_VERSION).sentence()} Each figure is the mean of {requests} requests, one after the other.\n",
    ]
    for revision, rows in revisions.items():
        parts += [f"From {revision} to this tree:\n", report.as_table(_COLUMNS, cells_of(rows))]
    return "\n".join(parts)


def _names(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[str, ...]:
    return tuple(given.split(",")) if given else ROWS


def _check(names: Sequence[str], *targets: Target) -> None:
    for name in names:
        needed = "create-order" if name == CHANGE else name
        if any(needed not in target.requests for target in targets):
            raise CannotMeasure(f"{name}: not a row of every revision")


@click.command()
@click.argument("revisions", nargs=-1, required=True)
@click.option("--only", callback=_names, help=f"Comma-separated rows to measure; without it: {', '.join(ROWS)}.")
@click.option(
    "--requests", default=128, show_default=True, type=click.IntRange(1, 10_000),
    help="Counted requests of a run; a multiple of 64, because every 64th write folds the totals.",
)  # fmt: skip
@click.option("--runs", default=2, show_default=True, type=click.IntRange(1, 20), help="Runs, which show the noise.")
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep the files of callgrind for callgrind_annotate in this folder."
)
@click.option(
    "--record", type=click.Path(path_type=Path), help="Write the results to a Markdown file, replacing earlier ones."
)
def main(
    revisions: tuple[str, ...], only: tuple[str, ...], requests: int, runs: int, keep: Path | None, record: Path | None
) -> None:
    """Count the instructions of requests in this tree and in other revisions, with callgrind of valgrind."""
    exit_on_sigterm()
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        valgrind("vgdb")
        found: dict[str, dict[str, list[Pair]]] = {revision: {name: [] for name in only} for revision in revisions}
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoa-count-")))
            folder.chmod(0o711)  # the database server may run as another user
            trees = {revision: stack.enter_context(checked_out(revision)) for revision in revisions} | {THIS: ROOT}
            sides = _sides(stack, trees, only, folder)
            for run in range(1, runs + 1):
                for row in only:
                    costs: dict[str, Cost] = {}
                    for name, side in sides.items():
                        kept = keep / f"{row}-{run}-{name}" if keep else None
                        if kept is not None:
                            kept.mkdir(parents=True, exist_ok=True)
                        costs[name] = side.cost(row, requests, f"{row} {run}", kept)
                        console.print(f"{row}, run {run}, {name}: {costs[name].summary()}")
                    for revision, rows in found.items():
                        rows[row].append(Pair(costs[revision], costs[THIS]))
        for revision, rows in found.items():
            console.print(table_of(revision, rows))
    except CannotMeasure as error:
        raise click.ClickException(str(error)) from error
    if record:
        options = f"--only {','.join(only)} --requests {requests} --runs {runs}"
        command = f"python -m benchmarks.instructions {' '.join(revisions)} {options}"
        report.record(record, "instructions", as_markdown(command, requests, found))


def _sides(stack: ExitStack, trees: Mapping[str, Path], only: Sequence[str], folder: Path) -> dict[str, Counted]:
    """The service of each tree under callgrind, after all have loaded their databases at the same time."""
    loading: dict[str, Loading] = {}
    for number, (name, tree) in enumerate(trees.items()):
        loading[name] = stack.enter_context(serving(tree, folder / f"tree-{number}"))
    _check(only, *(each.service().target for each in loading.values()))
    sides: dict[str, Counted] = {}
    for number, (name, tree) in enumerate(trees.items()):
        (inside := folder / f"callgrind-{number}").mkdir(0o711)
        sides[name] = stack.enter_context(under_callgrind(loading[name], tree, inside))
    return sides


if __name__ == "__main__":
    main()
