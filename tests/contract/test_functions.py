"""Every stored function is bound to its store, statement by statement, and somebody calls it."""

import re
from collections.abc import Iterator

import msgspec
import pytest
from tests.contract.tenancy import violations
from tests.contract.test_statements import store_owned

from stoa.db.migrate import Function, functions
from stoa.db.pool import Database

# Pure functions read no table of a store; make_day runs DDL on whole tables.
FUNCTIONS = [function for function in functions() if not function.pure]
_TIE = re.compile(r"\b(?:\w+\.)?store_id = (?:in_store_id|\w+\.store_id)\b")


def mutants(function: Function) -> Iterator[tuple[str, Function]]:
    """The function once for each condition on a store, with that condition removed."""
    for tie in _TIE.finditer(function.sql):
        line = function.sql.count("\n", 0, tie.start()) + 1
        sql = f"{function.sql[: tie.start()]}true{function.sql[tie.end() :]}"
        yield f"line {line}: {tie[0]}", msgspec.structs.replace(function, sql=sql)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
async def test_a_function_is_bound_to_its_store(db: Database, function: Function) -> None:
    assert violations(function, await store_owned(db)) == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
async def test_a_function_that_forgets_its_store_once_is_caught(db: Database, function: Function) -> None:
    owned = await store_owned(db)
    missed = [place for place, mutant in mutants(function) if not violations(mutant, owned)]
    assert missed == []


def test_conditions_on_stores_are_found_to_be_removed() -> None:
    assert sum(len(list(mutants(function))) for function in FUNCTIONS) > 50
