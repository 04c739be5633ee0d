"""The answers as pydantic models: the same fields and envelope as the service's own."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Stock(Answer):
    on_hand: int
    reserved: int
    available: int


class Image(Answer):
    id: int
    url: str
    alt: str | None
    position: int


class Option(Answer):
    name: str
    values: list[str]


class Seo(Answer):
    title: str | None
    description: str | None


class Variant(Answer):
    id: int
    product_id: int
    title: str
    option_values: dict[str, str]
    sku: str | None
    barcode: str | None
    price: Decimal | None
    effective_price: Decimal
    compare_at_price: Decimal | None
    cost_price: Decimal | None
    weight: float | None
    image_id: int | None
    position: int
    is_default: bool
    track_inventory: bool
    allow_backorder: bool
    low_stock_threshold: int | None
    external_id: str | None
    metadata: dict[str, Any] = Field(validation_alias="attributes")
    stock: Stock
    created_at: datetime
    updated_at: datetime
    version: int


class Product(Answer):
    id: int
    name: str
    price: Decimal
    external_id: str | None
    slug: str
    description: str | None
    status: str
    compare_at_price: Decimal | None
    cost_price: Decimal | None
    currency: str
    sku: str | None
    barcode: str | None
    brand: str | None
    category: str | None
    tags: list[str]
    images: list[Image]
    options: list[Option]
    variants_count: int
    weight: float | None
    weight_unit: str
    requires_shipping: bool
    taxable: bool
    track_inventory: bool
    seo: Seo
    metadata: dict[str, Any] = Field(validation_alias="attributes")
    stock: Stock
    in_stock: bool
    created_at: datetime
    updated_at: datetime
    version: int
    deleted_at: datetime | None


class ProductWithVariants(Product):
    variants: list[Variant]


class PageMeta(Answer):
    total: int
    limit: int
    page: int | None
    next_cursor: str | None
    prev_cursor: str | None


class ProductPage(Answer):
    data: list[Product]
    meta: PageMeta


class OneProduct(Answer):
    data: ProductWithVariants
    meta: dict[str, Any]


class NewToken(Answer):
    access_token: str
    token_type: str
    expires_in: int
    scope: str
