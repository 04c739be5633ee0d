"""SQL for notifications and their preferences."""

import msgspec

from stoa.db.query import Command, Query
from stoa.notifications.contract import Notification, Preference, Wanted

_PEOPLE = "notifications belong to people, not to a store"
RETENTION_DAYS = 90

# --- people --------------------------------------------------------------------------------------------------------

APP_PEOPLE = Query(
    int,
    """SELECT account_id FROM account_apps
        WHERE app_id = $1 AND (role = 'owner' OR editor) ORDER BY account_id LIMIT 100""",
    unbound="it finds who looks after an app",
)
STORE_PEOPLE = Query(
    int,
    """SELECT account_id FROM account_stores
        WHERE store_id = $1 AND (role = 'owner' OR editor) ORDER BY account_id LIMIT 100""",
)


class Named(msgspec.Struct):
    """The names of a store and an app, for texts."""

    handle: str
    store: str
    app: str


NAMES = Query(
    Named,
    "SELECT s.handle, s.name AS store, a.name AS app FROM stores s JOIN apps a ON a.id = $2 WHERE s.id = $1",
)

# --- writing -------------------------------------------------------------------------------------------------------

WANTED = Query(
    Wanted,
    """SELECT a.id AS account_id, a.email, coalesce(p.portal, true) AS portal, coalesce(p.email, $3::boolean) AS by_email
         FROM accounts a LEFT JOIN notification_preferences p ON p.account_id = a.id AND p.kind = $2
        WHERE a.id = ANY ($1::bigint[]) AND a.status = 'active'
          AND NOT EXISTS (SELECT FROM notifications n
                           WHERE n.account_id = a.id AND n.kind = $2 AND n.subject = $4
                             AND n.created_at > now() - make_interval(secs => $5))
        ORDER BY a.id""",
    unbound=_PEOPLE,
)
ADD = Command(
    """INSERT INTO notifications (account_id, shown, kind, subject, title, body, path, action)
       SELECT t.account_id, t.shown, $3, $4, $5, $6, $7, $8
         FROM unnest($1::bigint[], $2::boolean[]) AS t (account_id, shown)""",
    unbound=_PEOPLE,
)

# --- reading -------------------------------------------------------------------------------------------------------

UNREAD = Query(
    int,
    """SELECT count(*) FROM (
           SELECT FROM notifications WHERE account_id = $1 AND shown AND read_at IS NULL LIMIT 100) t""",
    unbound=_PEOPLE,
)
PAGE = Query(
    Notification,
    """SELECT id, kind, title, body, path, action, created_at, read_at FROM notifications
        WHERE account_id = $1 AND id < $2 AND shown ORDER BY id DESC LIMIT $3::integer""",
    unbound=_PEOPLE,
)
# Citus refuses now() inside coalesce; least ignores null.
READ = Query(
    str,
    """UPDATE notifications SET read_at = least(read_at, now()) WHERE account_id = $1 AND id = $2 AND shown
       RETURNING path""",
    unbound=_PEOPLE,
)
# Only up to the newest one on the page: what came since is still unread.
READ_ALL = Command(
    "UPDATE notifications SET read_at = now() WHERE account_id = $1 AND id <= $2 AND shown AND read_at IS NULL",
    unbound=_PEOPLE,
)

# --- preferences ---------------------------------------------------------------------------------------------------

PREFERENCES = Query(
    Preference, "SELECT kind, portal, email FROM notification_preferences WHERE account_id = $1", unbound=_PEOPLE
)
SET_PREFERENCES = Command(
    """INSERT INTO notification_preferences (account_id, kind, portal, email)
       SELECT $1, t.kind, t.portal, t.email
         FROM unnest($2::text[], $3::boolean[], $4::boolean[]) AS t (kind, portal, email)
           ON CONFLICT (account_id, kind) DO UPDATE SET portal = excluded.portal, email = excluded.email""",
    unbound=_PEOPLE,
)

# --- maintenance ---------------------------------------------------------------------------------------------------

DELETE_OLD_NOTIFICATIONS = Command(
    f"""DELETE FROM notifications WHERE id IN (
           SELECT id FROM notifications WHERE created_at < now() - interval '{RETENTION_DAYS} days' LIMIT 1000)""",
    unbound="maintenance covers all notifications",
)
