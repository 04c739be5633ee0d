"""What people type into the search of the documentation in the middle of their work, and the pages that answer them.

The queries were written down before their author looked at the index, its words or the other list of queries. A page is the name
of a guide, an operation, an error code or an event. Do not adapt a query to the index; improve the index.
"""

UNSEEN: list[tuple[str, set[str]]] = [
    # Access
    ("how do i authenticate", {"authentication"}),
    ("get an access token", {"authentication"}),
    ("my token expired", {"authentication", "token_expired"}),
    ("permissions my app needs", {"authentication"}),
    ("rotate secret", {"webhooks", "authentication", "rotate_webhook_secret"}),
    ("leaked key", {"authentication"}),
    ("ip allowlist", {"webhooks"}),
    # Webhooks
    ("verify webhook signature", {"webhooks"}),
    ("webhook not arriving", {"webhooks", "list_webhook_deliveries"}),
    ("test webhooks on my laptop", {"webhooks", "testing-an-app"}),
    ("replay missed events", {"webhooks", "redeliver_webhook"}),
    ("list of event types", {"events"}),
    ("retry schedule", {"webhooks"}),
    ("same event delivered twice", {"webhooks"}),
    # Limits, errors and repeats
    ("too many requests", {"errors", "rate_limited"}),
    ("429", {"errors", "rate_limited"}),
    ("throttling", {"errors", "rate_limited"}),
    ("how many calls per second", {"errors", "rate_limited"}),
    ("double charge", {"idempotency", "payments"}),
    ("safe to retry a post", {"idempotency", "errors"}),
    ("error codes", {"errors"}),
    ("what does 409 mean", {"errors"}),
    ("if-match", {"products", "version_conflict"}),
    ("lost update", {"products", "version_conflict"}),
    # Lists
    ("next page", {"pagination-and-sync"}),
    ("fetch all orders", {"list_orders", "exports", "pagination-and-sync"}),
    ("filter orders by date", {"list_orders", "order-lifecycle", "pagination-and-sync"}),
    # Orders
    ("create order via api", {"create_order", "order-lifecycle"}),
    ("edit an order after it was placed", {"order-lifecycle", "update_order"}),
    ("cancel an order", {"order-lifecycle", "update_order_status", "cancel_order"}),
    ("mark order as paid", {"payments", "take_payment"}),
    ("cash on delivery", {"payments"}),
    ("partial shipment", {"refunds-returns-fulfillments", "ship_order"}),
    ("tracking number", {"refunds-returns-fulfillments", "ship_order"}),
    ("give money back", {"refunds-returns-fulfillments", "refund_order"}),
    # Products and stock
    ("upload csv", {"imports"}),
    ("bulk update prices", {"imports", "products", "batch_products", "update_variants"}),
    ("import products from spreadsheet", {"imports", "create_product_import"}),
    ("product photos", {"pictures"}),
    ("upload image", {"pictures"}),
    ("product options size color", {"products"}),
    ("sku must be unique", {"sku_taken", "products"}),
    ("categories", {"collections", "products", "list_products"}),
    ("out of stock", {"inventory", "insufficient_stock"}),
    ("overselling", {"inventory", "insufficient_stock"}),
    ("reserve stock", {"inventory", "order-lifecycle"}),
    ("warehouse", {"inventory"}),
    ("move inventory between locations", {"inventory", "adjust_inventory"}),
    # Customers and own data
    ("merge duplicate customers", {"customers"}),
    ("delete customer data", {"customers", "erase_customer"}),
    ("gdpr", {"customers", "erase_customer"}),
    ("custom fields", {"metadata"}),
    # Tools and change
    ("sandbox", {"development-stores"}),
    ("test data", {"development-stores", "testing-an-app", "quickstart"}),
    ("python client", {"python-sdk"}),
    ("npm install", {"typescript-sdk"}),
    ("use with claude", {"agents"}),
    ("ai agent", {"agents"}),
    ("versioning", {"versioning"}),
    ("what's new", {"changelog"}),
]
