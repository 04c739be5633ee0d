"""The tables as SQLAlchemy models."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, DateTime, ForeignKey, Numeric, String
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it
        datetime: DateTime(timezone=True),
        Decimal: Numeric(17, 2),
        dict[str, Any]: JSONB,
        list[dict[str, Any]]: JSONB,
        list[str]: ARRAY(String),
    }


class Store(Base):
    __tablename__ = "stores"

    id: Mapped[int] = mapped_column(primary_key=True)
    handle: Mapped[str]
    status: Mapped[str]
    currency: Mapped[str]


class App(Base):
    __tablename__ = "apps"

    id: Mapped[int] = mapped_column(primary_key=True)
    client_id: Mapped[str]
    name: Mapped[str]
    scopes: Mapped[list[str]]
    status: Mapped[str]
    secrets: Mapped[list["AppSecret"]] = relationship()


class AppSecret(Base):
    __tablename__ = "app_secrets"

    app_id: Mapped[int] = mapped_column(ForeignKey("apps.id"), primary_key=True)
    id: Mapped[int] = mapped_column(primary_key=True)
    secret_hash: Mapped[bytes]
    expires_at: Mapped[datetime | None]


class Token(Base):
    __tablename__ = "tokens"

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    app_id: Mapped[int]
    store_id: Mapped[int | None]
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


class Installation(Base):
    __tablename__ = "installations"

    store_id: Mapped[int] = mapped_column(primary_key=True)
    app_id: Mapped[int] = mapped_column(primary_key=True)
    scopes: Mapped[list[str]]


class Stocked:
    """The common columns of products and variants: units on hand and reserved."""

    on_hand: Mapped[int]
    reserved: Mapped[int]

    @property
    def stock(self) -> dict[str, int]:
        return {
            "on_hand": self.on_hand,
            "reserved": self.reserved,
            "available": self.on_hand - self.reserved,
        }


class Image(Base):
    __tablename__ = "images"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    product_id: Mapped[int] = mapped_column(ForeignKey("baseline.products.id"), primary_key=True)
    id: Mapped[int] = mapped_column(primary_key=True)
    url: Mapped[str]
    alt: Mapped[str | None]
    position: Mapped[int]


class Variant(Stocked, Base):
    __tablename__ = "variants"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[int] = mapped_column(ForeignKey("baseline.products.id"))
    title: Mapped[str]
    option_values: Mapped[dict[str, Any]]
    sku: Mapped[str | None]
    barcode: Mapped[str | None]
    price: Mapped[Decimal | None]
    effective_price: Mapped[Decimal]
    compare_at_price: Mapped[Decimal | None]
    cost_price: Mapped[Decimal | None]
    weight: Mapped[float | None]
    image_id: Mapped[int | None]
    position: Mapped[int]
    is_default: Mapped[bool]
    track_inventory: Mapped[bool]
    allow_backorder: Mapped[bool]
    low_stock_threshold: Mapped[int | None]
    external_id: Mapped[str | None]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata")  # SQLAlchemy reserves `metadata`
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    version: Mapped[int]
    gtin: Mapped[str | None]
    requires_shipping: Mapped[bool | None]
    taxable: Mapped[bool | None]
    product: Mapped["Product"] = relationship(back_populates="variants")


class Product(Stocked, Base):
    __tablename__ = "products"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    store_id: Mapped[int] = mapped_column(ForeignKey("stores.id"))
    name: Mapped[str]
    price: Mapped[Decimal]
    external_id: Mapped[str | None]
    slug: Mapped[str]
    description: Mapped[str | None]
    status: Mapped[str]
    compare_at_price: Mapped[Decimal | None]
    cost_price: Mapped[Decimal | None]
    currency: Mapped[str]
    sku: Mapped[str | None]
    barcode: Mapped[str | None]
    brand: Mapped[str | None]
    category: Mapped[str | None]
    tags: Mapped[list[str]]
    options: Mapped[list[dict[str, Any]]]
    variants_count: Mapped[int]
    weight: Mapped[float | None]
    weight_unit: Mapped[str]
    requires_shipping: Mapped[bool]
    taxable: Mapped[bool]
    track_inventory: Mapped[bool]
    seo_title: Mapped[str | None]
    seo_description: Mapped[str | None]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata")
    in_stock: Mapped[bool]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    version: Mapped[int]
    deleted_at: Mapped[datetime | None]
    images: Mapped[list[Image]] = relationship(order_by=Image.position)
    variants: Mapped[list[Variant]] = relationship(order_by=Variant.position, back_populates="product")

    @property
    def seo(self) -> dict[str, str | None]:
        return {"title": self.seo_title, "description": self.seo_description}


class StockMovement(Base):
    __tablename__ = "stock_movements"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    variant_id: Mapped[int] = mapped_column(ForeignKey("baseline.variants.id"))
    kind: Mapped[str]
    delta_on_hand: Mapped[int]
    on_hand_after: Mapped[int]
    delta_reserved: Mapped[int]
    reserved_after: Mapped[int]
    order_id: Mapped[int | None]
    reason: Mapped[str]
    app_id: Mapped[int]
    created_at: Mapped[datetime]


class Event(Base):
    __tablename__ = "events"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    id: Mapped[UUID] = mapped_column(primary_key=True)
    store_id: Mapped[int]
    type: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class IdempotencyKey(Base):
    __tablename__ = "idempotency_keys"
    __table_args__ = {"schema": "baseline"}  # noqa: RUF012

    store_id: Mapped[int] = mapped_column(primary_key=True)
    app_id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]
    answer: Mapped[dict[str, Any] | None]
