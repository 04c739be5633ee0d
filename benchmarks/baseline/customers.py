"""Customers in the baseline."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy import select
from sqlalchemy.orm import selectinload

from benchmarks.baseline import answers
from benchmarks.baseline.access import Caller, Db, admitted
from benchmarks.baseline.paging import page_of
from benchmarks.baseline.trade_models import Customer

router = APIRouter(prefix="/stores/{handle}/api/v3/app/customers")
Reader = Annotated[Caller, Depends(admitted("customers:read"))]


@router.get("")
async def list_customers(
    db: Db,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    cursor: str | None = None,
) -> answers.CustomerPage:
    living = (Customer.store_id == caller.store_id, Customer.deleted_at.is_(None))
    rows = select(Customer).options(selectinload(Customer.addresses))
    return answers.CustomerPage.model_validate(await page_of(db, rows, Customer.id, living, limit, cursor))
