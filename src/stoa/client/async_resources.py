"""The calls of the asynchronous client. Written by `make sdk` from the declarations; do not edit."""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload
from urllib.parse import quote

from stoa.client import inputs, models
from stoa.client.answers import Batch, Model, Tombstone
from stoa.client.connection import AsyncConnection, AsyncResource
from stoa.client.feed import AsyncFeed
from stoa.client.imports import AsyncImportJobs
from stoa.client.pages import AsyncPages
from stoa.client.uploads import AsyncUpload, async_source


class AsyncProductsImports(AsyncImportJobs):
    """Calls of `client.products.imports`."""

    _path = "/products/imports"

    async def create(
        self,
        file: AsyncUpload,
        /,
        *,
        fields: inputs.OneOrMore[inputs.ImportField] | None = None,
        mode: Literal["upsert", "create", "update"] | None = None,
        match_by: Literal["sku", "external_id", "id"] | None = None,
        on_error: Literal["continue", "abort"] | None = None,
        dry_run: bool | None = None,
        missing: Literal["ignore", "archive"] | None = None,
        media_type: Literal["application/x-ndjson", "text/csv", "application/json"] | None = None,
        wait_s: float = 0.0,
        idempotency_key: str | None = None,
    ) -> models.Import:
        """Import products from a file.

        NDJSON (one product a line, its variants nested), CSV (a header row; `option.Color` and `metadata.tier`
        columns), or JSON `{"items":[...]}` with at most 1,000 items; gzip is welcome. At most 100,000 rows and
        100 MB. Each row is a merge patch of the product that it names, and is carried out exactly once. The
        answer comes when the file is safely kept; send `Prefer: wait=10` to wait that many seconds for the end.
        The guide on imports tells what each column means.

        Needs the scope `products:write`. Raises TooManyImports, TooManyRows.
        """
        with await async_source(file, media_type) as upload:
            return await self._connection.one(
                models.Import,
                "POST",
                "/products/imports",
                query={
                    "fields": fields,
                    "mode": mode,
                    "match_by": match_by,
                    "on_error": on_error,
                    "dry_run": dry_run,
                    "missing": missing,
                },
                upload=upload,
                idempotency_key=idempotency_key,
                wait_s=wait_s,
            )

    async def get(
        self,
        import_id: str,
        /,
        *,
        fields: inputs.OneOrMore[inputs.ImportField] | None = None,
        if_none_match: int | str | Model | None = None,
    ) -> models.Import:
        """Follow an import, or fetch its report.

        JSON is the job with its counts and first faults. `Accept: application/x-ndjson` is the report on every
        row, `Accept: text/csv` the failed rows with two more columns that say why: mend them and post the file
        again. Reports are kept for 30 days.

        Needs the scope `products:read`. Raises Gone.
        """
        return await self._connection.one(
            models.Import,
            "GET",
            f"/products/imports/{quote(import_id, safe='')}",
            query={"fields": fields},
            if_none_match=if_none_match,
        )


class AsyncProductsVariants(AsyncResource):
    """Calls of `client.products.variants`."""

    @overload
    def list(
        self, *, include_deleted: Literal[False] = False, **query: Unpack[inputs.ListVariantsQuery]
    ) -> AsyncPages[models.Variant]: ...
    @overload
    def list(
        self, *, include_deleted: Literal[True], **query: Unpack[inputs.ListVariantsQuery]
    ) -> AsyncPages[models.Variant | Tombstone]: ...
    def list(self, *, include_deleted: bool = False, **query: Unpack[inputs.ListVariantsQuery]) -> AsyncPages[Any]:
        """List variants of the whole catalogue.

        Ask by `sku` or `barcode` to find what was scanned.

        Needs the scope `products:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(
            models.Variant, "/products/variants", {**query, "include_deleted": include_deleted or None}
        )

    async def update_many(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.VariantBatch]
    ) -> Batch[models.Variant]:
        """Change up to 250 variants of any products.

        Each item names its variant by `id` or `sku` and carries a merge patch; `if_version` guards it.

        Needs the scope `products:write`. Raises BatchFailed, DuplicateVariant, ExternalIdTaken, SkuTaken,
        TooManyItems, VersionConflict.
        """
        return await self._connection.batch(
            models.Variant, "PATCH", "/products/variants", body=body, idempotency_key=idempotency_key
        )

    @overload
    def list_of_product(
        self,
        product_id: int,
        /,
        *,
        include_deleted: Literal[False] = False,
        **query: Unpack[inputs.ListProductVariantsQuery],
    ) -> AsyncPages[models.Variant]: ...
    @overload
    def list_of_product(
        self, product_id: int, /, *, include_deleted: Literal[True], **query: Unpack[inputs.ListProductVariantsQuery]
    ) -> AsyncPages[models.Variant | Tombstone]: ...
    def list_of_product(
        self, product_id: int, /, *, include_deleted: bool = False, **query: Unpack[inputs.ListProductVariantsQuery]
    ) -> AsyncPages[Any]:
        """List the variants of one product.

        Needs the scope `products:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(
            models.Variant, f"/products/{product_id}/variants", {**query, "include_deleted": include_deleted or None}
        )

    async def create(
        self,
        product_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.VariantField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewVariant],
    ) -> models.Variant:
        """Add a variant to a product.

        Its option values name exactly the product's options; values that are new are appended to them.

        Needs the scope `products:write`. Raises DuplicateVariant, ExternalIdTaken, SkuTaken.
        """
        return await self._connection.one(
            models.Variant,
            "POST",
            f"/products/{product_id}/variants",
            query={"fields": fields},
            body=body,
            idempotency_key=idempotency_key,
        )

    async def get(
        self,
        product_id: int,
        variant_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.VariantField] | None = None,
        if_none_match: int | str | Model | None = None,
    ) -> models.Variant:
        """Get one variant.

        Needs the scope `products:read`.
        """
        return await self._connection.one(
            models.Variant,
            "GET",
            f"/products/{product_id}/variants/{variant_id}",
            query={"fields": fields},
            if_none_match=if_none_match,
        )

    async def update(
        self,
        product_id: int,
        variant_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.VariantField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.VariantChanges],
    ) -> models.Variant:
        """Change a variant by merge patch.

        Stock is not changed here but by adjustments, so that every movement is in the ledger.

        Needs the scope `products:write`. Raises DuplicateVariant, ExternalIdTaken, SkuTaken, VersionConflict.
        """
        return await self._connection.one(
            models.Variant,
            "PATCH",
            f"/products/{product_id}/variants/{variant_id}",
            query={"fields": fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self,
        product_id: int,
        variant_id: int,
        /,
        *,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Remove a variant; the last one stays.

        Needs the scope `products:write`. Raises LastVariant, VersionConflict.
        """
        await self._connection.none(
            "DELETE",
            f"/products/{product_id}/variants/{variant_id}",
            if_match=if_match,
            idempotency_key=idempotency_key,
        )


class AsyncProductsInventoryAdjustments(AsyncResource):
    """Calls of `client.products.inventory.adjustments`."""

    def list(self, **query: Unpack[inputs.ListInventoryAdjustmentsQuery]) -> AsyncPages[models.LedgerEntry]:
        """List the stock ledger.

        Every change of every variant's stock, newest first: what moved, who moved it and why, and the levels
        right after. What orders reserve, release, ship and return is here too. Entries are never changed and
        never deleted.

        Needs the scope `inventory:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(models.LedgerEntry, "/products/inventory/adjustments", query)


class AsyncProductsInventory(AsyncResource):
    """Calls of `client.products.inventory`."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self.adjustments = AsyncProductsInventoryAdjustments(connection)

    @overload
    def list(
        self, *, include_deleted: Literal[False] = False, **query: Unpack[inputs.ListInventoryQuery]
    ) -> AsyncPages[models.StockLevel]: ...
    @overload
    def list(
        self, *, include_deleted: Literal[True], **query: Unpack[inputs.ListInventoryQuery]
    ) -> AsyncPages[models.StockLevel | Tombstone]: ...
    def list(self, *, include_deleted: bool = False, **query: Unpack[inputs.ListInventoryQuery]) -> AsyncPages[Any]:
        """List stock levels.

        One level for each variant of the store, by variant id unless sorted otherwise. `available` is what is
        on hand less what is reserved for orders. To keep a copy in step, ask for `updated_since` with
        `include_deleted=true`.

        Needs the scope `inventory:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(
            models.StockLevel, "/products/inventory", {**query, "include_deleted": include_deleted or None}
        )

    async def adjust(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.Adjustments]
    ) -> Batch[models.LedgerEntry]:
        """Set or adjust stock.

        Up to 500 items, applied in the order given; a variant may stand in several. `set` states what is on
        hand, `adjust` adds to it or takes from it. With `compare_quantity` an item only applies while exactly
        that much is on hand. What is available never falls below 0, unless the variant takes backorders or is
        not tracked. Each item answers with its ledger entry; one that changes nothing is `unchanged` and leaves
        none. Atomic (the default): one item that cannot be applied, and none is. Independent: each for itself,
        207 when any failed.

        Needs the scope `inventory:write`. Raises BatchFailed, InsufficientStock, StaleQuantity, TooManyItems.
        """
        return await self._connection.batch(
            models.LedgerEntry, "POST", "/products/inventory/adjustments", body=body, idempotency_key=idempotency_key
        )


class AsyncProducts(AsyncResource):
    """Calls of `client.products`."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self.imports = AsyncProductsImports(connection)
        self.variants = AsyncProductsVariants(connection)
        self.inventory = AsyncProductsInventory(connection)

    @overload
    def list(
        self, *, include_deleted: Literal[False] = False, **query: Unpack[inputs.ListProductsQuery]
    ) -> AsyncPages[models.Product]: ...
    @overload
    def list(
        self, *, include_deleted: Literal[True], **query: Unpack[inputs.ListProductsQuery]
    ) -> AsyncPages[models.Product | Tombstone]: ...
    def list(self, *, include_deleted: bool = False, **query: Unpack[inputs.ListProductsQuery]) -> AsyncPages[Any]:
        """List products.

        The catalogue of the store, by id unless sorted otherwise. Filters combine with *and*. Follow
        `next_cursor` to walk through everything: each product that exists throughout is seen exactly once,
        whatever others write meanwhile. To keep a copy in step, ask for `updated_since` with
        `include_deleted=true`.

        Needs the scope `products:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(
            models.Product, "/products", {**query, "include_deleted": include_deleted or None}
        )

    async def create(
        self,
        *,
        fields: inputs.OneOrMore[inputs.ProductField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewProduct],
    ) -> models.Product:
        """Create a product.

        Options and variants may stand inline; without variants the product gets one, with the first value of
        each option, and `sku`, `barcode` and `stock` may stand on the product itself. Images are numbered from
        1 in the order sent: a variant's `image_id` may name one.

        Needs the scope `products:write`. Raises ExternalIdTaken, SkuTaken.
        """
        return await self._connection.one(
            models.Product, "POST", "/products", query={"fields": fields}, body=body, idempotency_key=idempotency_key
        )

    async def get(
        self,
        product_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.ProductField] | None = None,
        include: inputs.OneOrMore[Literal["variants", "inventory"]] | None = None,
        if_none_match: int | str | Model | None = None,
    ) -> models.Product:
        """Get one product with its variants.

        Needs the scope `products:read`.
        """
        return await self._connection.one(
            models.Product,
            "GET",
            f"/products/{product_id}",
            query={"fields": fields, "include": include},
            if_none_match=if_none_match,
        )

    async def update(
        self,
        product_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.ProductField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.ProductChanges],
    ) -> models.Product:
        """Change a product's own fields by merge patch.

        Variants are changed at their own addresses, so that nothing is wiped by leaving it out. They follow
        where `options` change: a value stays with its option, also under a new name at the same place, and an
        option that is new begins with its first value. An option or a value goes only while the variants still
        differ, and none has that value.

        Needs the scope `products:write`. Raises ExternalIdTaken, SkuTaken, VersionConflict.
        """
        return await self._connection.one(
            models.Product,
            "PATCH",
            f"/products/{product_id}",
            query={"fields": fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self, product_id: int, /, *, if_match: int | str | Model | None = None, idempotency_key: str | None = None
    ) -> None:
        """Delete a product.

        Its variants go with it and their SKUs are free again; orders keep what they recorded. A tombstone stays
        for 90 days.

        Needs the scope `products:write`. Raises VersionConflict.
        """
        await self._connection.none(
            "DELETE", f"/products/{product_id}", if_match=if_match, idempotency_key=idempotency_key
        )

    async def batch(
        self, *, idempotency_key: str | None = None, **body: Unpack[inputs.ProductBatch]
    ) -> Batch[models.Product]:
        """Create, update, upsert and delete up to 100 products.

        An item names its product by `id`, `sku` or `external_id`; `data` is a product as it is created, or a
        merge patch that may also carry `variants`. With `mode: independent` each item stands for itself and 207
        tells that some failed.

        Needs the scope `products:write`. Raises BatchFailed, DuplicateVariant, ExternalIdTaken, SkuTaken,
        TooManyItems, VersionConflict.
        """
        return await self._connection.batch(
            models.Product, "POST", "/products/batch", body=body, idempotency_key=idempotency_key
        )


class AsyncOrdersProducts(AsyncResource):
    """Calls of `client.orders.products`."""

    async def add(
        self,
        order_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.OrderField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.AddedLines],
    ) -> models.Order:
        """Add products to an order.

        All lines or none; the lines that are there stay as they are. A new line joins an equal one (same
        variant, unit price and metadata, nothing shipped of it) unless `merge` is false. Answers the whole
        order.

        Needs the scope `orders:write`. Raises InsufficientStock, OrderNotEditable, VersionConflict.
        """
        return await self._connection.one(
            models.Order,
            "POST",
            f"/orders/{order_id}/products",
            query={"fields": fields},
            body=body,
            idempotency_key=idempotency_key,
        )

    async def update(
        self,
        order_id: int,
        line_item_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.OrderField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.LineChanges],
    ) -> models.Order:
        """Change or remove a line of an order.

        The stock difference is reserved or released. A `quantity` of 0 removes the line; the last one stays, as
        does what was shipped. `If-Match` is compared with the order's version, and the whole order is answered.

        Needs the scope `orders:write`. Raises InsufficientStock, OrderNotEditable, VersionConflict.
        """
        return await self._connection.one(
            models.Order,
            "PATCH",
            f"/orders/{order_id}/products/{line_item_id}",
            query={"fields": fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )


class AsyncOrdersComments(AsyncResource):
    """Calls of `client.orders.comments`."""

    def list(self, order_id: int, /, **query: Unpack[inputs.ListOrderCommentsQuery]) -> AsyncPages[models.Comment]:
        """List an order's timeline.

        Comments, and what happened to the order with who did it and what changed, newest first. To show a
        customer what is meant for them, ask for `visibility=customer`.

        Needs the scope `orders:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(models.Comment, f"/orders/{order_id}/comments", query)

    async def create(
        self,
        order_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.CommentField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewComment],
    ) -> models.Comment:
        """Write on an order's timeline.

        What is written stays as it is. It is for the store's own people unless `visibility` is `customer`.

        Needs the scope `orders:write`.
        """
        return await self._connection.one(
            models.Comment,
            "POST",
            f"/orders/{order_id}/comments",
            query={"fields": fields},
            body=body,
            idempotency_key=idempotency_key,
        )


class AsyncOrdersDuplicates(AsyncResource):
    """Calls of `client.orders.duplicates`."""

    def list(self, order_id: int, /, **query: Unpack[inputs.ListOrderDuplicatesQuery]) -> AsyncPages[models.Duplicate]:
        """List orders that may be the same purchase, and copies of this one.

        `suspected` ones were placed by the same contact within the window and have the same basket or address;
        `score` says how sure that is and `reasons` why. A `copy` was made from this order on purpose. Newest
        first.

        Needs the scope `orders:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(models.Duplicate, f"/orders/{order_id}/duplicates", query)


class AsyncOrders(AsyncResource):
    """Calls of `client.orders`."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self.products = AsyncOrdersProducts(connection)
        self.comments = AsyncOrdersComments(connection)
        self.duplicates = AsyncOrdersDuplicates(connection)

    def list(self, **query: Unpack[inputs.ListOrdersQuery]) -> AsyncPages[models.Order]:
        """List orders.

        By id unless sorted otherwise; filters combine with *and*. To keep a copy in step, ask for
        `updated_since`: it moves with every change of an order. Orders are never deleted.

        Needs the scope `orders:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(models.Order, "/orders", query)

    async def create(
        self,
        *,
        fields: inputs.OneOrMore[inputs.OrderField] | None = None,
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewOrder],
    ) -> models.Order:
        """Place an order and reserve its stock.

        Lines name a variant by `variant_id` or `sku` and cost what it costs now unless they say otherwise. All
        lines are reserved or none; a draft reserves nothing. The customer is named by `customer_id`, or given
        as `customer` and found by e-mail address or phone number, else created. With `dry_run=true` the order
        is priced and checked and nothing is written: its ids, number and version are 0, and
        `meta.suspected_duplicates` tells which orders it looks like.

        Needs the scope `orders:write`. Raises DuplicateOrderSuspected, ExternalIdTaken, InsufficientStock.
        """
        return await self._connection.one(
            models.Order,
            "POST",
            "/orders",
            query={"fields": fields, "dry_run": dry_run},
            body=body,
            idempotency_key=idempotency_key,
        )

    async def get(
        self,
        order_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.OrderField] | None = None,
        if_none_match: int | str | Model | None = None,
    ) -> models.Order:
        """Get one order, with its lines and where it may go next.

        Needs the scope `orders:read`.
        """
        return await self._connection.one(
            models.Order, "GET", f"/orders/{order_id}", query={"fields": fields}, if_none_match=if_none_match
        )

    async def update(
        self,
        order_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.OrderField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.OrderChanges],
    ) -> models.Order:
        """Change an order's own fields by merge patch.

        Note, tags, metadata and external id may always be changed, the rest until the order is shipped or
        cancelled. Status, payment and lines have their own addresses.

        Needs the scope `orders:write`. Raises ExternalIdTaken, OrderNotEditable, VersionConflict.
        """
        return await self._connection.one(
            models.Order,
            "PATCH",
            f"/orders/{order_id}",
            query={"fields": fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def update_status(
        self,
        order_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.OrderField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.StatusChange],
    ) -> models.Order:
        """Move an order, its payment, or both.

        Stock follows: reserved from `pending` on, taken from the shelf when shipped or completed, released when
        cancelled, put back when returned unless `restock` is false. With `line_items` only a part is shipped or
        taken back, and the order stays where it is until the rest follows. Where the order is already, nothing
        happens: 200, no new version, no event.

        Needs the scope `orders:write`. Raises IllegalTransition, InsufficientStock, OrderNotPaid,
        VersionConflict.
        """
        return await self._connection.one(
            models.Order,
            "PUT",
            f"/orders/{order_id}/status",
            query={"fields": fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def duplicate(
        self,
        order_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.OrderField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewCopy],
    ) -> models.Order:
        """Copy an order into a new one.

        Lines, customer, contact, addresses, methods, amounts, note, tags and metadata are copied; payment,
        tracking, comments and external id never. With `reprice` every line costs what it costs now, and
        discounts and taxes, which belong to the old prices, stay behind. Lines whose variant is gone are named
        in `meta.skipped_line_items`.

        Needs the scope `orders:write`. Raises InsufficientStock, VersionConflict.
        """
        return await self._connection.one(
            models.Order,
            "POST",
            f"/orders/{order_id}/duplicates",
            query={"fields": fields},
            body=body or None,
            idempotency_key=idempotency_key,
        )


class AsyncCustomersAddresses(AsyncResource):
    """Calls of `client.customers.addresses`."""

    async def create(
        self,
        customer_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.AddressField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewAddress],
    ) -> models.Address:
        """Add an address.

        A customer has at most 100. The first is the default for shipping and billing; a later one that says so
        takes that over.

        Needs the scope `customers:write`.
        """
        return await self._connection.one(
            models.Address,
            "POST",
            f"/customers/{customer_id}/addresses",
            query={"fields": fields},
            body=body,
            idempotency_key=idempotency_key,
        )

    async def update(
        self,
        customer_id: int,
        address_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.AddressField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.AddressChanges],
    ) -> models.Address:
        """Change an address by merge patch.

        Making it a default takes that from the address that was it, in the same moment. Orders that were placed
        keep the address as it was.

        Needs the scope `customers:write`. Raises VersionConflict.
        """
        return await self._connection.one(
            models.Address,
            "PATCH",
            f"/customers/{customer_id}/addresses/{address_id}",
            query={"fields": fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self,
        customer_id: int,
        address_id: int,
        /,
        *,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Remove an address.

        Where it was a default, the oldest that remains takes its place. Orders that were placed keep the
        address as it was.

        Needs the scope `customers:write`. Raises VersionConflict.
        """
        await self._connection.none(
            "DELETE",
            f"/customers/{customer_id}/addresses/{address_id}",
            if_match=if_match,
            idempotency_key=idempotency_key,
        )


class AsyncCustomersImports(AsyncImportJobs):
    """Calls of `client.customers.imports`."""

    _path = "/customers/imports"

    async def create(
        self,
        file: AsyncUpload,
        /,
        *,
        fields: inputs.OneOrMore[inputs.ImportField] | None = None,
        mode: Literal["upsert", "create", "update"] | None = None,
        match_by: Literal["email", "phone", "external_id", "id"] | None = None,
        on_error: Literal["continue", "abort"] | None = None,
        dry_run: bool | None = None,
        media_type: Literal["application/x-ndjson", "text/csv", "application/json"] | None = None,
        wait_s: float = 0.0,
        idempotency_key: str | None = None,
    ) -> models.Import:
        """Import customers from a file.

        NDJSON (one customer a line, addresses nested), CSV (a header row; `address.city` and `metadata.tier`
        columns), or JSON `{"items":[...]}` with at most 1,000 items; gzip is welcome. At most 100,000 rows and
        100 MB. Each row is a merge patch of the customer that it names, and is carried out exactly once. The
        answer comes when the file is safely kept; send `Prefer: wait=10` to wait that many seconds for the end.
        The guide on customers tells what each column means.

        Needs the scope `customers:write`. Raises TooManyImports, TooManyRows.
        """
        with await async_source(file, media_type) as upload:
            return await self._connection.one(
                models.Import,
                "POST",
                "/customers/imports",
                query={"fields": fields, "mode": mode, "match_by": match_by, "on_error": on_error, "dry_run": dry_run},
                upload=upload,
                idempotency_key=idempotency_key,
                wait_s=wait_s,
            )

    async def get(
        self,
        import_id: str,
        /,
        *,
        fields: inputs.OneOrMore[inputs.ImportField] | None = None,
        if_none_match: int | str | Model | None = None,
    ) -> models.Import:
        """Follow an import of customers, or fetch its report.

        JSON is the job with its counts and first faults. `Accept: application/x-ndjson` is the report on every
        row, `Accept: text/csv` the failed rows with two more columns that say why: mend them and post the file
        again. Reports are kept for 30 days; of a customer that is erased, they keep nothing.

        Needs the scope `customers:read`. Raises Gone.
        """
        return await self._connection.one(
            models.Import,
            "GET",
            f"/customers/imports/{quote(import_id, safe='')}",
            query={"fields": fields},
            if_none_match=if_none_match,
        )


class AsyncCustomers(AsyncResource):
    """Calls of `client.customers`."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self.addresses = AsyncCustomersAddresses(connection)
        self.imports = AsyncCustomersImports(connection)

    @overload
    def list(
        self, *, include_deleted: Literal[False] = False, **query: Unpack[inputs.ListCustomersQuery]
    ) -> AsyncPages[models.Customer]: ...
    @overload
    def list(
        self, *, include_deleted: Literal[True], **query: Unpack[inputs.ListCustomersQuery]
    ) -> AsyncPages[models.Customer | Tombstone]: ...
    def list(self, *, include_deleted: bool = False, **query: Unpack[inputs.ListCustomersQuery]) -> AsyncPages[Any]:
        """List customers.

        By id unless sorted otherwise; filters combine with *and*. `metadata` shows and searches your app's own
        keys and the shared ones. To keep a copy in step, ask for `updated_since` with `include_deleted=true`:
        one that was erased comes as `{id, deleted_at, version}`.

        Needs the scope `customers:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(
            models.Customer, "/customers", {**query, "include_deleted": include_deleted or None}
        )

    async def create(
        self,
        *,
        fields: inputs.OneOrMore[inputs.CustomerField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewCustomer],
    ) -> models.Customer:
        """Create a customer.

        An e-mail address or a phone number is needed. Addresses and metadata may stand inline; the first
        address is the default for shipping and billing unless another says that it is. Metadata keys belong to
        your app, unless they start with `shared.`.

        Needs the scope `customers:write`. Raises CustomerExists, ExternalIdTaken.
        """
        return await self._connection.one(
            models.Customer, "POST", "/customers", query={"fields": fields}, body=body, idempotency_key=idempotency_key
        )

    async def get(
        self,
        customer_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.CustomerField] | None = None,
        if_none_match: int | str | Model | None = None,
    ) -> models.Customer:
        """Get one customer with all addresses and metadata.

        Needs the scope `customers:read`.
        """
        return await self._connection.one(
            models.Customer, "GET", f"/customers/{customer_id}", query={"fields": fields}, if_none_match=if_none_match
        )

    async def update(
        self,
        customer_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.CustomerField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.CustomerChanges],
    ) -> models.Customer:
        """Change a customer's own fields by merge patch.

        `metadata` is merged too: keys that are left out stay, null removes one. Addresses are changed at their
        own addresses, so that nothing is wiped by leaving it out.

        Needs the scope `customers:write`. Raises CustomerExists, ExternalIdTaken, VersionConflict.
        """
        return await self._connection.one(
            models.Customer,
            "PATCH",
            f"/customers/{customer_id}",
            query={"fields": fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def erase(
        self, customer_id: int, /, *, if_match: int | str | Model | None = None, idempotency_key: str | None = None
    ) -> None:
        """Erase a customer's personal data, for good.

        Name, e-mail address, phone, addresses, note, tags and metadata are removed wherever they were written,
        past events, import reports and remembered answers included. Orders keep their totals under a customer
        without a name. A tombstone stays in lists for 90 days. This cannot be undone.

        Needs the scope `customers:erase`. Raises VersionConflict.
        """
        await self._connection.none(
            "DELETE", f"/customers/{customer_id}", if_match=if_match, idempotency_key=idempotency_key
        )

    async def update_metadata(
        self,
        customer_id: int,
        body: inputs.UpdateCustomerMetadataBody,
        /,
        *,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
    ) -> list[models.MetadataEntry]:
        """Merge metadata.

        Keys that are left out stay, null removes one; two who merge different keys at once both succeed. Keys
        belong to your app, up to 100 of them, unless they start with `shared.`: those are seen and written by
        all, 100 again. Answers every entry that your app can see, with who wrote it last.

        Needs the scope `customers:write`. Raises VersionConflict.
        """
        return await self._connection.one(
            list[models.MetadataEntry],
            "PATCH",
            f"/customers/{customer_id}/metadata",
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )


class AsyncWebhooksDeliveries(AsyncFeed):
    """Calls of `client.webhooks.deliveries`."""

    def list(
        self, webhook_id: int, /, **query: Unpack[inputs.ListWebhookDeliveriesQuery]
    ) -> AsyncPages[models.Delivery]:
        """Look up deliveries, or pull them as a feed.

        The log of 30 days, newest first, with every try and what the receiver said. `include=payload` adds what
        was sent. With `event_id` and no delivery, `meta.not_sent` says why the event was not sent. With `after`
        it is a feed: what came after that sequence, oldest first and without gaps, whatever became of its
        delivery. `wait` keeps the request open until there is something new. Send the last `sequence`, or
        `meta.after`, as the next `after`. With `include=payload` each event comes with the headers that a
        delivery would have, signed now.

        Needs the scope `webhooks:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(models.Delivery, f"/webhooks/{webhook_id}/deliveries", query)


class AsyncWebhooks(AsyncResource):
    """Calls of `client.webhooks`."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self.deliveries = AsyncWebhooksDeliveries(connection)

    def list(self, **query: Unpack[inputs.ListWebhooksQuery]) -> AsyncPages[models.Webhook]:
        """List this app's subscriptions on this store.

        `meta.available_events` tells every event there is: the scope that it needs and whether the app has it,
        where its JSON Schema is served, and a sample of what is sent.

        Needs the scope `webhooks:read`. Raises CursorMismatch, PageTooDeep.
        """
        return self._connection.pages(models.Webhook, "/webhooks", query)

    async def create(
        self,
        *,
        answer_fields: inputs.OneOrMore[inputs.WebhookField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewWebhook],
    ) -> models.Webhook:
        """Subscribe to events.

        `events` are names (`order.status_changed`) or wildcards (`order.*`, `*`); a wildcard means whatever the
        app may hear, now or later. `filter` takes the grammar of the lists and looks at the resource, such as
        `{"status":"cancelled","total[gte]":"100.00"}`. Without `url` nothing is sent: the events are kept to be
        pulled. The answer shows `secret` this once; with the same `Idempotency-Key` it is shown again. The
        subscription is in force for every event that is committed after the answer.

        Needs the scope `webhooks:write`. Raises TooManyWebhooks, WebhookExists.
        """
        return await self._connection.one(
            models.Webhook,
            "POST",
            "/webhooks",
            query={"fields": answer_fields},
            body=body,
            idempotency_key=idempotency_key,
        )

    async def get(
        self,
        webhook_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.WebhookField] | None = None,
        if_none_match: int | str | Model | None = None,
    ) -> models.Webhook:
        """Get one subscription, with how it fares.

        `health`, `pending`, the age of what has waited longest, the breaker and the figures of the last 24
        hours move without `version` and `ETag`, which tell of its settings.

        Needs the scope `webhooks:read`.
        """
        return await self._connection.one(
            models.Webhook, "GET", f"/webhooks/{webhook_id}", query={"fields": fields}, if_none_match=if_none_match
        )

    async def update(
        self,
        webhook_id: int,
        /,
        *,
        answer_fields: inputs.OneOrMore[inputs.WebhookField] | None = None,
        if_match: int | str | Model | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.WebhookChanges],
    ) -> models.Webhook:
        """Change a subscription by merge patch.

        With `status: paused` events are kept; with `status: active` they are sent again: all that waited, or as
        `resume` says only what is new (`now`) or happened since a time (`{"since":"..."}`). This also brings a
        disabled subscription back. A new `url` is used for what waits, too. Values of `headers` are never
        shown: leave one out, or send its stars back, to keep it.

        Needs the scope `webhooks:write`. Raises VersionConflict, WebhookExists.
        """
        return await self._connection.one(
            models.Webhook,
            "PATCH",
            f"/webhooks/{webhook_id}",
            query={"fields": answer_fields},
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self, webhook_id: int, /, *, if_match: int | str | Model | None = None, idempotency_key: str | None = None
    ) -> None:
        """Unsubscribe.

        Nothing more is sent, and what waits is given up; its log goes with it.

        Needs the scope `webhooks:write`. Raises VersionConflict.
        """
        await self._connection.none(
            "DELETE", f"/webhooks/{webhook_id}", if_match=if_match, idempotency_key=idempotency_key
        )

    async def send_test(
        self,
        webhook_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.TestResultField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewTest],
    ) -> models.TestResult:
        """Send a signed sample now.

        The answer tells what the receiver said, how long each part took, and the very text that was signed, so
        that a signature that does not verify can be compared. A test has no sequence and no retries, and is not
        in the log. Ten at once, and then one every two seconds.

        Needs the scope `webhooks:write`.
        """
        return await self._connection.one(
            models.TestResult,
            "POST",
            f"/webhooks/{webhook_id}/test",
            query={"fields": fields},
            body=body or None,
            idempotency_key=idempotency_key,
        )

    async def rotate_secret(
        self,
        webhook_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.WebhookField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewSecret],
    ) -> models.Webhook:
        """Make a new secret.

        Both secrets sign for `grace_hours`, so a receiver that knows either goes on verifying; with 0 the old
        one ends at once. The answer shows `secret` this once; with the same `Idempotency-Key` it is shown
        again.

        Needs the scope `webhooks:write`. Raises SecretRotationActive.
        """
        return await self._connection.one(
            models.Webhook,
            "POST",
            f"/webhooks/{webhook_id}/rotate-secret",
            query={"fields": fields},
            body=body or None,
            idempotency_key=idempotency_key,
        )

    async def redeliver(
        self,
        webhook_id: int,
        /,
        *,
        fields: inputs.OneOrMore[inputs.RedeliveryField] | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[inputs.NewRedelivery],
    ) -> models.Redelivery:
        """Send deliveries again, by their ids or by time.

        After an outage, `{"since":"..."}` brings back everything in one call: however much it is, in the order
        in which it first was sent, and at most `rate_per_s`. The events keep their ids, so a receiver that
        remembers them drops what it had already; each gets a new delivery and sequence. `dry_run` only counts.

        Needs the scope `webhooks:write`. Raises TooManyItems.
        """
        return await self._connection.one(
            models.Redelivery,
            "POST",
            f"/webhooks/{webhook_id}/redeliver",
            query={"fields": fields},
            body=body,
            idempotency_key=idempotency_key,
        )


class AsyncResources:
    """Everything that a store offers to an app."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.products = AsyncProducts(connection)
        self.orders = AsyncOrders(connection)
        self.customers = AsyncCustomers(connection)
        self.webhooks = AsyncWebhooks(connection)
