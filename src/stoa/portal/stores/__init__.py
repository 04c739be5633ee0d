"""Pages for merchants: their stores, installed apps, products, orders, customers and imports."""

from stoa.portal.stores import (
    audit,
    customers,
    import_corrections,
    install,
    locations,
    metadata,
    order_actions,
    product_actions,
    search,
    settings,
    stores,
)

PAGES = (
    install.pages,
    stores.pages,
    product_actions.pages,  # with those of products
    order_actions.pages,  # with those of orders
    customers.pages,
    search.pages,
    import_corrections.pages,  # with those of imports
    locations.pages,
    metadata.pages,
    settings.pages,
    audit.pages,
)
