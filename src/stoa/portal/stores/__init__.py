"""Pages for merchants: their stores, installed apps, products, orders, customers and imports."""

from stoa.portal.stores import (
    audit,
    collections,
    customer_actions,
    import_corrections,
    install,
    locations,
    metadata,
    new_order,
    product_pictures,
    sample_order,
    search,
    selected_orders,
    settings,
    stores,
    transfers,
)

PAGES = (
    install.pages,
    sample_order.pages,  # with those of the home page
    stores.pages,
    product_pictures.pages,  # with those of products
    collections.pages,
    selected_orders.pages,  # with those of orders and of saved filters
    new_order.pages,
    customer_actions.pages,  # with those of customers
    search.pages,
    import_corrections.pages,  # with those of imports
    locations.pages,
    transfers.pages,
    metadata.pages,
    settings.pages,
    audit.pages,
)
