"""The statements that ask more than one node of a cluster, each with who runs it and why.

No other statement may: a test plans all of them on a cluster. Functions over all stores are not listed; they say so in
their first line.
"""

_APP = "request of the app API: it concerns one app on all its stores"
_FEED = "request of the app API: one statement for all feeds that wait in a process, at most one shard for each store"
_PORTAL = "page of the portal: it shows an app, a person or the service on all stores"
_OPERATOR = "operator: it shows or changes an app on all its stores"
_WORKER = "worker: it looks for work on all nodes, a few times a second"
_MAINTENANCE = "maintenance: one process every five seconds"
_CHECK = "operator: it checks or counts the whole database"

FAN_OUT = {
    "stoa.access.queries.INSTALLATIONS_PAGE": _APP,
    "stoa.webhooks.api.queries.LAST_SEQUENCES": _FEED,
    "stoa.access.operator_queries.END_APP_ENDPOINTS": _OPERATOR,
    "stoa.access.operator_queries.INSTALLED_HERE": _OPERATOR,
    "stoa.access.operator_queries.LIST_APPS": _OPERATOR,
    "stoa.demo.receiver.GET_APP": _OPERATOR,
    "stoa.webhooks.app_callbacks.COPY_TO_STORES": _OPERATOR,
    "stoa.webhooks.app_callbacks.END_ON_STORES": _OPERATOR,
    "stoa.portal.apps.usage.INSTALLATIONS_OF_APP": _PORTAL,
    "stoa.accounts.queries.DEVELOPMENT_INSTALLATIONS": _PORTAL,
    "stoa.accounts.queries.OWNED_APP": _PORTAL,
    "stoa.accounts.queries.OWNED_APPS": _PORTAL,
    "stoa.accounts.queries.OWNED_STORE": _PORTAL,
    "stoa.accounts.queries.OWNED_STORES": _PORTAL,
    "stoa.portal.apps.subscriptions.SUBSCRIPTIONS_OF_APP": _PORTAL,
    "stoa.portal.apps.tail.LANES_OF_APP": _PORTAL,
    "stoa.portal.apps.access_tokens.CALLABLE_STORES": _PORTAL,
    "stoa.portal.operators.health.IMPORT_QUEUE": _PORTAL,
    "stoa.portal.apps.endpoint.ENDPOINT_ON_STORES": _PORTAL,
    "stoa.portal.account.dashboard.HAS_SUBSCRIPTION": _PORTAL,
    "stoa.webhooks.delivery.failing_receivers.FAILING_OF_APPS": _PORTAL,
    "stoa.webhooks.delivery.failing_receivers.FAILING_RECEIVERS": _PORTAL,
    "stoa.portal.operators.queries.OVERDUE_CHORES": _PORTAL,
    "stoa.portal.apps.impersonation.STORES_OF_APP": _PORTAL,
    "stoa.portal.apps.impersonation.STORE_OF_ENDPOINT": _PORTAL,
    "stoa.portal.apps.impersonation.STORE_OF_APP": _PORTAL,
    "stoa.portal.search.APPS": _PORTAL,
    "stoa.portal.search.STORES": _PORTAL,
    "stoa.usage.queries.DAYS_ALL_STORES": _PORTAL,
    "stoa.usage.queries.OPERATIONS_ALL_STORES": _PORTAL,
    "stoa.usage.queries.STORES": _PORTAL,
    "stoa.access.audit.ALL_ACTIONS": _PORTAL,
    "stoa.access.audit.EVERYWHERE": _PORTAL,
    "stoa.operations.maintenance.DELETE_EXPIRED_REPORTS": _MAINTENANCE,
    "stoa.rest.idempotency.FORGET_OLD": _MAINTENANCE,
    "stoa.usage.queries.FORGET_OLD_DAYS": _MAINTENANCE,
    "stoa.usage.queries.FORGET_OLD_FAILURES": _MAINTENANCE,
    "stoa.usage.queries.FORGET_OLD_REQUESTS": _MAINTENANCE,
    "stoa.usage.queries.REQUEST": _PORTAL,
    "stoa.usage.queries.REQUESTS": _PORTAL,
    "stoa.usage.request_log.NEWEST_TO_DELETE": _MAINTENANCE,
    "stoa.usage.request_log.TRIM_REQUESTS": _MAINTENANCE,
    "stoa.webhooks.expiring_secrets.EXPIRING_OF_SUBSCRIPTIONS": _WORKER,
    "stoa.operations.maintenance.FORGET_OLD_FORMS": _MAINTENANCE,
    "stoa.operations.maintenance.DELETE_CHECKED_FILES": _MAINTENANCE,
    "stoa.usage.queries.FORGET_OLD_HOURS": _MAINTENANCE,
    "stoa.portal.account.dashboard.APP_HEALTH": _PORTAL,
    "stoa.usage.queries.HOURS_ALL_STORES": _PORTAL,
    "stoa.usage.queries.OPERATIONS_BY_HOUR_ALL_STORES": _PORTAL,
    "stoa.usage.queries.STORES_BY_HOUR": _PORTAL,
    "stoa.operations.maintenance.FOLD_COUNTS": _MAINTENANCE,
    "stoa.operations.maintenance.FORGET_RECEIVED_BY_STORES": _MAINTENANCE,
    "stoa.webhooks.app_rollout.STORES_OF": _WORKER,
    "stoa.operations.maintenance.END_FUTURE_LEASES": _MAINTENANCE,
    "stoa.webhooks.delivery.maintenance.DELETE_OLD_HOURS": _MAINTENANCE,
    "stoa.webhooks.delivery.queries.BACKLOG": _CHECK,
    "stoa.cluster.status._TOTALS": _CHECK,
    "stoa.operations.receiver_checks.RECEIVERS": _CHECK,
    "stoa.shards.balance.LOADS": _CHECK,
    "stoa.backup.erasures.ERASURES": _CHECK,
    "stoa.backup.invariants.TOTALS": _CHECK,
    "stoa.backup.invariants.STOCK": _CHECK,
    "stoa.backup.invariants.LEVELS": _CHECK,
    "stoa.backup.invariants.LOCATIONS": _CHECK,
    "stoa.backup.invariants.OVERSOLD": _CHECK,
    "stoa.backup.invariants.RESERVED": _CHECK,
    "stoa.backup.invariants.LINES": _CHECK,
    "stoa.backup.invariants.SUMS": _CHECK,
    "stoa.backup.invariants.REFUNDS": _CHECK,
    "stoa.backup.invariants.FULFILLMENTS": _CHECK,
    "stoa.backup.invariants.CHAINS": _CHECK,
}

# Statements of one store that the log names because PostgreSQL once planned them without their values. Citus gives such a plan
# of a change a cost at which it is never chosen; a test shows that they ask one node.
PLANNED = {"stoa.imports.erasure.ERASE_IMPORTED_ROWS"}
