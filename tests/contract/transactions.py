"""Finds what a transaction may write: the statements that a function names, and those of the functions that it names.

Read from the source, so that a path which no test takes counts as well. A name that is mentioned counts as used.
"""

import ast
import importlib.util
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import stoa

OPENING = {"transaction", "in_transaction"}
_RECORD, _AUDIT = "record", "stoa.access.audit.record"  # the second argument says whose log it is
_SERVICE = {"SERVICE", "audit.SERVICE", "None"}


class Module:
    """The names of a module: its functions, by their qualified names, and what it imports."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.imported: dict[str, str] = {}
        self.functions: dict[str, ast.AST] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self.imported |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                        self.functions[f"{node.name}.{each.name}"] = each

    def names_in(self, function: str) -> Iterator[str]:
        """The full names of what a function mentions."""
        owner = function.partition(".")[0] if "." in function else ""
        for node in ast.walk(self.functions[function]):
            if isinstance(node, ast.Name):
                yield self.imported.get(node.id, f"{self.name}.{node.id}")
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "self":
                    yield f"{self.name}.{owner}.{node.attr}"
                else:
                    yield f"{self.imported.get(node.value.id, f'{self.name}.{node.value.id}')}.{node.attr}"


def modules() -> dict[str, Module]:
    found: dict[str, Module] = {}
    for each in pkgutil.walk_packages(stoa.__path__, "stoa."):
        spec = importlib.util.find_spec(each.name)
        if spec is not None and spec.origin is not None:
            found[each.name] = Module(each.name, ast.parse(Path(spec.origin).read_text()))
    return found


def _called(node: ast.AST) -> str:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


class Writes:
    """What functions may write, as the places of the tables: `store` or `global`."""

    def __init__(self, statements: Mapping[str, frozenset[str]], messages: Collection[str]) -> None:
        self._modules = modules()
        self._statements = statements
        self._messages = messages  # functions that send a message if they cannot write
        self._functions = {f"{m.name}.{name}": (m, name) for m in self._modules.values() for name in m.functions}

    def transactions(self) -> Iterator[str]:
        """The functions that open a transaction."""
        for full, (module, name) in self._functions.items():
            if any(_called(node) in OPENING for node in ast.walk(module.functions[name])):
                yield full

    def mentions(self, function: str) -> set[str]:
        module, name = self._functions[function]
        return set(module.names_in(name))

    def of(self, function: str) -> set[str]:
        """The places that a function may write, with everything that it may call."""
        places: set[str] = set()
        seen, waiting = {function}, [function]
        while waiting:
            module, name = self._functions[waiting.pop()]
            places |= self._records(module.functions[name])
            for mentioned in module.names_in(name):
                places |= self._statements.get(mentioned, frozenset())
                if mentioned in self._functions and mentioned not in {*seen, *self._messages, _AUDIT}:
                    seen.add(mentioned)
                    waiting.append(mentioned)
        return places

    def _records(self, function: ast.AST) -> set[str]:
        """The logs to which a function appends by `by.record(db, store_id, ...)`."""
        found: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _called(node) == _RECORD and len(node.args) > 1:
                values = node.args[1].values if isinstance(node.args[1], ast.BoolOp) else [node.args[1]]
                found |= {"global" if ast.unparse(each) in _SERVICE else "store" for each in values}
        return found
