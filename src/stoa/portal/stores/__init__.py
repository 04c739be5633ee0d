"""Pages for merchants: their stores, installed apps, products, orders, customers and imports."""

from stoa.portal.stores import (
    audit,
    customers,
    import_corrections,
    install,
    locations,
    metadata,
    product_actions,
    sample_order,
    search,
    selected_orders,
    settings,
    stores,
)

PAGES = (
    install.pages,
    sample_order.pages,  # with those of the home page
    stores.pages,
    product_actions.pages,  # with those of products
    selected_orders.pages,  # with those of orders and of saved filters
    customers.pages,
    search.pages,
    import_corrections.pages,  # with those of imports
    locations.pages,
    metadata.pages,
    settings.pages,
    audit.pages,
)
