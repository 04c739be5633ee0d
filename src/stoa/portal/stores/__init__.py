"""Pages for merchants: their stores, installed apps, products, orders, customers and imports."""

from stoa.portal.stores import (
    audit,
    collections,
    customers,
    home,
    import_corrections,
    install,
    locations,
    metadata,
    product_pictures,
    search,
    selected_orders,
    settings,
    stores,
)

PAGES = (
    install.pages,
    home.pages,
    stores.pages,
    product_pictures.pages,  # with those of products
    collections.pages,
    selected_orders.pages,  # with those of orders and of saved filters
    customers.pages,
    search.pages,
    import_corrections.pages,  # with those of imports
    locations.pages,
    metadata.pages,
    settings.pages,
    audit.pages,
)
