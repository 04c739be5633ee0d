"""Reads a stored function as PostgreSQL parses it, and finds statements that could reach beyond one store.

Every table of a store must be tied to the function's store in each statement: `t.store_id = in_store_id`, or equal to the
`store_id` of a table that is tied already. A function that works over all stores says so in its first line; its statements
must still tie the tables they join to each other.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import pglast
from pglast import ast
from pglast.enums import A_Expr_Kind, BoolExprType, SetOperation

from stoa.db.migrate import Function

OVER_ALL_STORES = "-- Over all stores:"
_STATEMENT, _EXPRESSION = 0, 2  # how PL/pgSQL parses a piece of SQL; what is left is an assignment
Reference = tuple[str, str]  # the alias, or "" for a name by itself, and the column
_ROOT: Reference = ("", "in_store_id")


def statements(function: Function) -> list[Any]:
    """Every statement and expression inside a function, parsed."""
    [create] = _parse(function.sql)
    options = {option.defname: option.arg for option in create.options}
    if options["language"].sval == "plpgsql":
        return [part for text in _plpgsql(pglast.parse_plpgsql(function.sql)) for part in text]
    if create.sql_body is not None:
        return [create.sql_body]
    return _parse(options["as"][0].sval)


def _parse(sql: str) -> list[Any]:
    return [cast("Any", raw).stmt for raw in pglast.parse_sql(sql)]


def _plpgsql(node: Any) -> Iterator[list[Any]]:
    if isinstance(node, dict):
        found = cast("dict[str, Any]", node)
        if "PLpgSQL_stmt_dynexecute" in found:
            raise AssertionError("dynamic SQL cannot be checked")
        if "PLpgSQL_expr" in found:
            text, mode = found["PLpgSQL_expr"]["query"], found["PLpgSQL_expr"].get("parseMode")
            if mode != _STATEMENT:
                text = f"SELECT {text if mode == _EXPRESSION else text.partition(':=')[2]}"
            yield _parse(text)
        for value in found.values():
            yield from _plpgsql(value)
    elif isinstance(node, list | tuple):
        for value in cast("Iterable[Any]", node):
            yield from _plpgsql(value)


def violations(function: Function, owned: set[str]) -> list[str]:
    """The tables that a function reads or writes without tying them to a store."""
    checker = _Checker(owned, over_all=function.sql.startswith(OVER_ALL_STORES))
    for statement in statements(function):
        checker.check(statement, frozenset(), frozenset())
    return checker.found


class _Level:
    """The tables of one FROM clause, and the conditions that join them."""

    def __init__(self) -> None:
        self.tables: dict[str, str] = {}  # alias to table
        self.derived: set[str] = set()  # aliases of subqueries, functions and common table expressions
        self.conditions: list[Any] = []
        self.inside: list[Any] = []  # subqueries and functions, to be checked with these tables in sight


class _Checker:
    def __init__(self, owned: set[str], *, over_all: bool) -> None:
        self._owned = owned
        self._over_all = over_all
        self.found: list[str] = []

    def check(self, node: Any, tied: frozenset[str], ctes: frozenset[str], *, nested: bool = False) -> None:
        """Check a statement and everything inside it; `tied` are the outer aliases that are tied to the store.

        `nested` marks a subquery that belongs to a row, and so to the store of that row.
        """
        if _is(node, ast.SelectStmt, ast.UpdateStmt, ast.DeleteStmt, ast.InsertStmt):
            clause = node.withClause
            for cte in clause.ctes if clause is not None else ():
                self.check(cte.ctequery, tied, ctes)
                ctes |= {cte.ctename}
            self._statement(node, tied, ctes, nested=nested)
        elif _is(node, ast.Node):
            derived = _is(node, ast.RangeSubselect)
            nested = node.lateral if derived else nested or _is(node, ast.SubLink)
            for name in node:
                self.check(getattr(node, name), tied, ctes, nested=nested)
        elif isinstance(node, tuple | list):
            for each in cast("Iterable[Any]", node):
                self.check(each, tied, ctes, nested=nested)

    def _statement(self, node: Any, tied: frozenset[str], ctes: frozenset[str], *, nested: bool) -> None:
        if _is(node, ast.SelectStmt) and node.op != SetOperation.SETOP_NONE:
            self.check(node.larg, tied, ctes, nested=nested)
            self.check(node.rarg, tied, ctes, nested=nested)
            return
        level = _Level()
        if _is(node, ast.InsertStmt):
            self._insert(node)
        elif not _is(node, ast.SelectStmt):
            self._collect(node.relation, level, ctes)
        source = node.usingClause if _is(node, ast.DeleteStmt) else getattr(node, "fromClause", None)
        for item in source or ():
            self._collect(item, level, ctes)
        where = getattr(node, "whereClause", None)
        if where is not None:
            level.conditions += _conjuncts(where)
        # Over all stores, a plain SELECT may name the stores; what it finds must then be tied to them. Locks belong to a store.
        plain = _is(node, ast.SelectStmt) and not node.lockingClause
        scans = self._over_all and plain and not nested and not level.derived
        now_tied = self._tied(level, tied, scans=scans, nested=nested)
        for alias, table in level.tables.items():
            if table in self._owned and alias not in now_tied:
                self.found.append(f"{table} {alias}")
        seen = tied | now_tied
        for inside in (*level.inside, *level.conditions):
            self.check(inside, seen, ctes)
        skipped = {"withClause", "fromClause", "usingClause", "whereClause", "relation"}
        for name in node:
            if name not in skipped:
                self.check(getattr(node, name), seen, ctes)

    def _collect(self, item: Any, level: _Level, ctes: frozenset[str]) -> None:
        if _is(item, ast.JoinExpr):
            self._collect(item.larg, level, ctes)
            self._collect(item.rarg, level, ctes)
            if item.quals is not None:
                level.conditions += _conjuncts(item.quals)
        elif _is(item, ast.RangeVar):
            alias = item.alias.aliasname if item.alias else item.relname
            if item.relname in ctes:
                level.derived.add(alias)
            else:
                level.tables[alias] = item.relname
        else:
            level.inside.append(item)
            if item.alias is not None:
                level.derived.add(item.alias.aliasname)

    def _tied(self, level: _Level, outer: frozenset[str], *, scans: bool, nested: bool) -> set[str]:
        alone = next(iter(level.tables)) if len(level.tables) == 1 and not level.derived else ""
        pairs: list[tuple[Reference, Reference]] = []
        tied: set[str] = set()
        # A subquery that belongs to a row is tied to the store of that row, and a table that is joined to rows to their stores.
        listed = self._over_all and not nested and not level.derived
        for condition in level.conditions:
            if not _is(condition, ast.A_Expr):
                continue
            if self._over_all and (bucketed := _bucketed(condition.lexpr, alone)):
                tied.add(bucketed)
            left, right = _reference(condition.lexpr, alone), _reference(condition.rexpr, alone)
            if condition.kind == A_Expr_Kind.AEXPR_OP and condition.name[-1].sval == "=" and left and right:
                pairs += [(left, right), (right, left)]
            elif condition.kind == A_Expr_Kind.AEXPR_OP_ANY and listed and left and left[1] == "store_id":
                tied.add(left[0])
        self._follow(level, tied, pairs, outer)
        first = next((alias for alias, table in level.tables.items() if table in self._owned), None)
        if scans and first is not None and not tied:
            tied.add(first)  # this table names the stores; the others must be tied to it
            self._follow(level, tied, pairs, outer)
        return tied

    def _follow(
        self, level: _Level, tied: set[str], pairs: list[tuple[Reference, Reference]], outer: frozenset[str]
    ) -> None:
        """Add the aliases that are equal to one that is tied, until there are no more."""
        while (
            more := {
                left[0]
                for left, right in pairs
                if left[1] == "store_id" and left[0] in level.tables and self._ties(right, level, tied | outer)
            }
            - tied
        ):
            tied |= more

    def _ties(self, reference: Reference, level: _Level, tied: set[str]) -> bool:
        alias, column = reference
        if reference == _ROOT:
            return True
        if column != "store_id":
            return False
        return alias in tied or (self._over_all and alias not in level.tables)

    def _insert(self, node: Any) -> None:
        table = node.relation.relname
        if table not in self._owned:
            return
        columns = [column.name for column in node.cols or ()]
        select = node.selectStmt
        first = select.valuesLists[0][0] if select.valuesLists else select.targetList[0].val
        value = _reference(first, "")
        if (
            columns[:1] != ["store_id"]
            or value is None
            or not (value == _ROOT or (self._over_all and value[1] == "store_id"))
        ):
            self.found.append(f"INSERT INTO {table}")


def _is(node: Any, *kinds: type) -> bool:
    """Like isinstance, but leaves the node untyped: the parser declares every member as optional."""
    return isinstance(node, kinds)


def _conjuncts(node: Any) -> list[Any]:
    if _is(node, ast.BoolExpr) and node.boolop == BoolExprType.AND_EXPR:
        return [each for argument in node.args for each in _conjuncts(argument)]
    return [node]


def _bucketed(node: Any, alone: str) -> str:
    """The alias in `alias.store_id % 64`, by which workers share the stores among themselves."""
    if _is(node, ast.A_Expr) and node.name[-1].sval == "%":
        reference = _reference(node.lexpr, alone)
        return reference[0] if reference and reference[1] == "store_id" else ""
    return ""


def _reference(node: Any, alone: str) -> Reference | None:
    """A column or a variable; a column without an alias belongs to the only table."""
    if not _is(node, ast.ColumnRef) or not all(_is(field, ast.String) for field in node.fields):
        return None
    names = [field.sval for field in node.fields]
    if len(names) == 1:
        return (alone, names[0]) if alone and names[0] == "store_id" else ("", names[0])
    return names[-2], names[-1]
