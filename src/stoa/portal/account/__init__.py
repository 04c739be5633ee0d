"""Pages for everybody: sign-in, the overview, the own account, notifications and teams."""

from stoa.portal.account import announcements, authentication, dashboard, joining, notifications, profile, teams, theme

PAGES = (
    authentication.pages,
    joining.pages,
    theme.pages,
    dashboard.pages,
    teams.pages,
    profile.pages,
    notifications.pages,
    announcements.pages,
)
