"""The tools for models, one declaration each: a task of a shop's staff, and the operation that does it."""

from msgspec.structs import replace

from stoa.mcp.task import Shape, Task

_PRODUCT = Shape(
    "Product", ("id", "name", "status", "sku", "price", "compare_at_price", "in_stock", "stock", "variants_count")
)
_PRODUCT_WHOLE = Shape("Product", ("id", "name", "description", "status", "price", "tags", "variants"), whole=True)
_VARIANTS = Shape("VariantOutcome", ("status", "id", "resource"), many=True)
_LEVEL = Shape("StockLevel", ("variant_id", "product_id", "sku", "stock", "low_stock_threshold", "locations"))
_LEDGER = Shape("LedgerEntryOutcome", ("status", "resource"), many=True)
_ORDER_FIELDS = ("id", "number", "status", "payment_status", "fulfillment_status", "total", "amount_due")
_ORDERS = Shape("Order", (*_ORDER_FIELDS, "currency", "contact", "placed_at"))
_ORDER = Shape("Order", (*_ORDER_FIELDS, "amount_paid", "amount_refunded", "allowed_transitions", "line_items"))
_ORDER_WHOLE = Shape("Order", (*_ORDER.fields, "customer_id", "fulfillments", "refunds", "note"), whole=True)
_COMMENT = Shape("Comment", ("id", "type", "visibility", "body", "author", "created_at"))
_CUSTOMER_FIELDS = ("id", "email", "phone", "first_name", "last_name", "company", "tags", "note", "addresses")
_CUSTOMER = Shape("Customer", (*_CUSTOMER_FIELDS, "orders_count", "total_spent", "last_order_at"))

_LINE = ("sku", "variant_id", "quantity", "unit_price", "name")
_LINES = "What to order: `sku` or `variant_id` with `quantity`. A line without a variant has `name` and `unit_price`."
_WHICH = {"sku": "The SKU of the variant; or `variant_id`.", "variant_id": "The id of the variant; or `sku`."}
_FROM_ORDER = "by their ids in show_order"
_REASON = "Why, in a few words."
_CREATE_ORDER = Task(
    name="create_order",
    operation="create_order",
    description="Place an order. Stoa computes the total from the catalog; try it with quote_order first.",
    presets=("orders",),
    arguments="line_items customer_id email=customer.email phone=customer.phone first_name=customer.first_name "
    "last_name=customer.last_name shipping_total discount_total note tags status",
    only={"line_items": _LINE},
    describe={
        "line_items": _LINES,
        "customer_id": "A stored customer; or `email` or `phone`, by which one is found or created.",
        "email": "The email address of the customer.",
        "phone": "The phone number of the customer, with its country code.",
        "first_name": "Of the customer.",
        "last_name": "Of the customer.",
        "shipping_total": "The shipping costs; 0 by default.",
        "discount_total": "A discount on the whole order; 0 by default.",
        "note": "A note on the order.",
        "status": "`pending`, the default, and `processing` reserve stock; a `draft` does not.",
    },
    result=_ORDER,
)

TASKS = (
    # --- catalog ---
    Task(
        name="find_products",
        operation="list_products",
        description="Find products by words, SKU, brand, category, tag, price or stock.",
        presets=("catalog", "orders", "support"),
        arguments="q sku status brand category tag price_min=price[gte] price_max=price[lte] in_stock updated_since sort",
        result=_PRODUCT,
        describe={"price_min": "At least this price.", "price_max": "At most this price."},
    ),
    Task(
        name="show_product",
        operation="get_product",
        description="Show a product with all its variants, their SKUs, prices and stock.",
        presets=("catalog", "support"),
        arguments="product_id",
        fixed={"include": ["variants"]},
        result=_PRODUCT_WHOLE,
    ),
    Task(
        name="create_product",
        operation="create_product",
        description="Create a product. One form needs no `options`; for several, such as sizes, send `options` and one of "
        "`variants` for each combination.",
        presets=("catalog",),
        arguments="name price sku description status brand category tags compare_at_price on_hand=stock.on_hand options variants",
        only={"variants": ("option_values", "sku", "price"), "options": ("name", "values")},
        describe={
            "price": "The price of all variants that have none of their own.",
            "sku": "The SKU, if there is only one form.",
            "on_hand": "The units in stock, if there is only one form. Needs the scope inventory:write.",
            "variants": 'The forms, such as {"option_values": {"Size": "S"}, "sku": "LS-S"}.',
            "options": 'What the forms differ by, such as {"name": "Size", "values": ["S", "M"]}.',
        },
        result=_PRODUCT,
    ),
    Task(
        name="update_product",
        operation="update_product",
        description="Change the texts, the status or the tags of a product. Omitted fields stay as they are, null clears one. "
        "For prices, use change_price.",
        presets=("catalog",),
        arguments="product_id name description status brand category tags",
        result=_PRODUCT,
    ),
    Task(
        name="change_price",
        operation="update_product",
        description="Change the price of a product, which applies to all variants without a price of their own. For the price "
        "of one variant, use change_variant_price.",
        presets=("catalog",),
        arguments="product_id price compare_at_price",
        required=("price",),
        describe={
            "price": "The new price.",
            "compare_at_price": "The earlier price to show struck through; null removes it.",
        },
        result=_PRODUCT,
    ),
    Task(
        name="change_variant_price",
        operation="update_variants",
        description="Give one variant a price of its own, by `sku` or `variant_id`. With null, the price of the product applies.",
        presets=("catalog",),
        arguments="sku=items.0.sku variant_id=items.0.id price=items.0.data.price compare_at_price=items.0.data.compare_at_price",
        required=("price",),
        schemas={"price": "VariantChanges.price", "compare_at_price": "VariantChanges.compare_at_price"},
        describe=_WHICH | {"price": "The new price; null removes it."},
        result=_VARIANTS,
    ),
    Task(
        name="check_stock",
        operation="list_inventory",
        description="Show how many units are on hand, reserved and available, per variant and location.",
        presets=("catalog", "orders", "support"),
        arguments="sku variant_id product_id low_stock in_stock location",
        fixed={"include": ["locations"]},
        result=_LEVEL,
    ),
    Task(
        name="set_stock",
        operation="adjust_inventory",
        description="Set the units on hand of one variant to a number that was counted. For deliveries and losses, use adjust_stock.",
        presets=("catalog",),
        arguments="sku=items.0.sku variant_id=items.0.variant_id quantity=items.0.quantity location=items.0.location "
        "expected=items.0.compare_quantity reason reference",
        required=("quantity",),
        fixed={"items.0.op": "set"},
        describe=_WHICH
        | {"quantity": "The new number.", "expected": "Fail if the number on hand is not this one.", "reason": _REASON},
        result=_LEDGER,
    ),
    Task(
        name="adjust_stock",
        operation="adjust_inventory",
        description="Add units to the stock of one variant, such as a delivery, or subtract them, such as a loss.",
        presets=("catalog",),
        arguments="sku=items.0.sku variant_id=items.0.variant_id quantity=items.0.quantity location=items.0.location reason reference",
        required=("quantity",),
        fixed={"items.0.op": "adjust"},
        describe=_WHICH | {"quantity": "The difference; negative to subtract.", "reason": _REASON},
        result=_LEDGER,
    ),
    # --- orders ---
    Task(
        name="find_orders",
        operation="list_orders",
        description="Find orders by words, number, customer, state or time.",
        presets=("orders", "support"),
        arguments="q number status payment_status fulfillment_status customer_id email phone sku tag placed_from=placed_at[gte] "
        "placed_until=placed_at[lt] has_suspected_duplicates sort",
        describe={"placed_from": "Placed at or after this time.", "placed_until": "Placed before this time."},
        result=_ORDERS,
    ),
    Task(
        name="show_order",
        operation="get_order",
        description="Show an order with its line items, shipments, refunds and addresses.",
        presets=("orders", "support"),
        arguments="order_id",
        result=_ORDER_WHOLE,
    ),
    Task(
        name="show_order_timeline",
        operation="list_order_comments",
        description="Show what happened to an order, and the comments on it.",
        presets=("orders", "support"),
        arguments="order_id type visibility",
        result=_COMMENT,
    ),
    replace(
        _CREATE_ORDER,
        name="quote_order",
        description="Compute the total of an order and check its stock, without placing it.",
        presets=("orders", "support"),
        dry_run=True,
    ),
    _CREATE_ORDER,
    Task(
        name="ship_order",
        operation="update_order_status",
        description=f"Ship an order: all units that are left, or those in `line_items`, {_FROM_ORDER}.",
        presets=("orders",),
        arguments="order_id line_items carrier=tracking.carrier tracking_number=tracking.number tracking_url=tracking.url comment",
        fixed={"status": "shipped"},
        only={"line_items": ("id", "quantity")},
        describe={
            "line_items": "The units to ship; all that are left by default.",
            "carrier": "Who carries the parcel.",
            "tracking_number": "The number of the parcel.",
            "tracking_url": "Where to follow the parcel.",
            "comment": "For the timeline.",
        },
        result=_ORDER,
    ),
    Task(
        name="change_order_status",
        operation="update_order_status",
        description="Move an order to another status of its `allowed_transitions`, such as `processing`, `on_hold`, `delivered` "
        "or `completed`. There are tools to ship, cancel and return an order.",
        presets=("orders",),
        arguments="order_id status fulfillment_id comment reason",
        required=("status",),
        describe={"status": "The new status.", "comment": "For the timeline.", "reason": _REASON},
        result=_ORDER,
    ),
    Task(
        name="cancel_order",
        operation="update_order_status",
        description="Cancel an order that is not shipped. Its stock becomes available again; it refunds nothing.",
        presets=("orders", "support"),
        arguments="order_id reason comment",
        fixed={"status": "cancelled"},
        describe={"reason": _REASON, "comment": "For the timeline."},
        result=_ORDER,
    ),
    Task(
        name="take_payment",
        operation="update_order_status",
        description="Record a payment, in full or in part; `amount_due` of the order says what is due. It moves no money: the "
        "payment was taken elsewhere.",
        presets=("orders",),
        arguments="order_id amount=payment.amount method=payment.method external_id=payment.external_id note=payment.note",
        required=("amount",),
        result=_ORDER,
    ),
    Task(
        name="refund_order",
        operation="update_order_status",
        description=f"Record a refund: units of `line_items` ({_FROM_ORDER}), shipping, an amount, or several of these.",
        presets=("orders", "support"),
        arguments="order_id amount=refund.amount line_items=refund.line_items shipping_amount=refund.shipping_amount "
        "reason=refund.reason note=refund.note",
        only={"line_items": ("line_item_id", "quantity", "restock")},
        result=_ORDER,
    ),
    Task(
        name="return_order",
        operation="update_order_status",
        description=f"Take back shipped units: all, or those in `line_items`, {_FROM_ORDER}. It refunds nothing.",
        presets=("orders", "support"),
        arguments="order_id line_items restock comment",
        fixed={"status": "returned"},
        only={"line_items": ("id", "quantity")},
        describe={
            "line_items": "The units to take back; all that are shipped by default.",
            "restock": "Whether the units return to stock; true by default.",
            "comment": "For the timeline.",
        },
        result=_ORDER,
    ),
    Task(
        name="add_order_items",
        operation="add_order_products",
        description="Add line items to an order that is not shipped yet.",
        presets=("orders",),
        arguments="order_id line_items",
        only={"line_items": _LINE},
        describe={"line_items": _LINES},
        result=_ORDER,
    ),
    Task(
        name="change_order_item",
        operation="update_order_product",
        description=f"Change the quantity, price or discount of a line item, {_FROM_ORDER}. The quantity 0 removes it.",
        presets=("orders",),
        arguments="order_id line_item_id quantity unit_price discount_total",
        describe={"discount_total": "The discount on all units of the line item."},
        result=_ORDER,
    ),
    Task(
        name="comment_on_order",
        operation="create_order_comment",
        description="Add a comment to the timeline of an order.",
        presets=("orders", "support"),
        arguments="order_id text=body visibility",
        result=_COMMENT,
    ),
    # --- customers ---
    Task(
        name="find_customers",
        operation="list_customers",
        description="Find customers by words, email address, phone number, name or id.",
        presets=("orders", "support"),
        arguments="q email phone name customer_id=ids tag status sort",
        describe={"customer_id": "These customers, by id."},
        result=_CUSTOMER,
    ),
    Task(
        name="update_customer",
        operation="update_customer",
        description="Change the contact data, the tags or the note of a customer. Omitted fields stay as they are, null clears one.",
        presets=("support",),
        arguments="customer_id email phone first_name last_name company locale accepts_marketing tags note",
        result=_CUSTOMER,
    ),
)
