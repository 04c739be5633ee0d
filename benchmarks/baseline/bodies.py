"""The bodies of writes as pydantic models."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Money = Annotated[Decimal, Field(ge=0, max_digits=17, decimal_places=2)]
Short = Annotated[str, Field(min_length=1, max_length=255)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewStock(Body):
    on_hand: Annotated[int, Field(ge=0)] = 0


class NewImage(Body):
    url: Annotated[str, Field(max_length=2048)]
    alt: Annotated[str, Field(max_length=512)] | None = None


class NewOption(Body):
    name: Short
    values: list[Short]


class Seo(Body):
    title: Short | None = None
    description: Annotated[str, Field(max_length=1024)] | None = None


class NewVariant(Body):
    option_values: dict[str, str] = {}
    sku: Short | None = None
    barcode: Short | None = None
    price: Money | None = None
    compare_at_price: Money | None = None
    cost_price: Money | None = None
    weight: float | None = None
    track_inventory: bool | None = None
    allow_backorder: bool = False
    low_stock_threshold: int | None = None
    external_id: Short | None = None
    metadata: dict[str, Any] = {}
    stock: NewStock = NewStock()
    gtin: Annotated[str, Field(pattern=r"^[0-9]{8,14}$")] | None = None
    requires_shipping: bool | None = None
    taxable: bool | None = None


class NewProduct(Body):
    name: Short
    price: Money
    external_id: Short | None = None
    description: Annotated[str, Field(max_length=65_535)] | None = None
    status: Literal["active", "draft", "archived"] = "active"
    compare_at_price: Money | None = None
    cost_price: Money | None = None
    brand: Short | None = None
    category: Short | None = None
    tags: list[Short] = []
    images: list[NewImage] = []
    options: list[NewOption] = []
    variants: Annotated[list[NewVariant], Field(min_length=1, max_length=200)]
    weight: float | None = None
    weight_unit: Literal["g", "kg", "oz", "lb"] = "kg"
    requires_shipping: bool = True
    taxable: bool = True
    track_inventory: bool = True
    seo: Seo = Seo()
    metadata: dict[str, Any] = {}


class Contact(Body):
    email: Annotated[str, Field(max_length=254, pattern=r"^[^@\s]+@[^@\s]+$")] | None = None
    phone: Annotated[str, Field(max_length=40)] | None = None
    first_name: Short | None = None
    last_name: Short | None = None


class OrderAddress(Body):
    first_name: Short | None = None
    last_name: Short | None = None
    company: Short | None = None
    phone: Short | None = None
    address1: Short | None = None
    address2: Short | None = None
    city: Short | None = None
    district: Short | None = None
    province: Short | None = None
    province_code: Short | None = None
    postal_code: Short | None = None
    country_code: Annotated[str, Field(pattern="^[A-Z]{2}$")] | None = None
    latitude: float | None = None
    longitude: float | None = None


class NewLine(Body):
    sku: Short
    quantity: Annotated[int, Field(ge=1, le=1_000_000)]
    metadata: dict[str, Any] = {}


class NewOrder(Body):
    line_items: Annotated[list[NewLine], Field(min_length=1, max_length=500)]
    external_id: Short | None = None
    contact: Contact = Contact()
    shipping_total: Money = Decimal(0)
    shipping_address: OrderAddress | None = None
    billing_address: OrderAddress | None = None
    shipping_method: Short | None = None
    payment_method: Short | None = None
    note: str | None = None
    tags: list[Short] = []
    metadata: dict[str, Any] = {}


class Adjustment(Body):
    sku: Short
    quantity: int
    op: Literal["set", "adjust"] = "adjust"


class Adjustments(Body):
    items: Annotated[list[Adjustment], Field(min_length=1, max_length=500)]
    reason: Literal["restock", "correction", "stocktake", "other"] = "other"
    reference: Short | None = None
