"""Pages for operators: all stores, apps and accounts, and the health of the service."""

from stoa.portal.operators import announcements, audit, directory, health, load, outbox, requests, shards

PAGES = (
    directory.pages,
    requests.pages,
    audit.pages,
    health.pages,
    outbox.pages,
    load.pages,
    shards.pages,
    announcements.pages,
)
