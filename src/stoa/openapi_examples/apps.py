"""Example events about apps: installed, with other scopes, uninstalled."""

from stoa.access.contract import AppInstalled, AppScopesChanged, AppUninstalled
from stoa.openapi_examples.fixtures import APP_ID, APP_NAME, EventExample, Events

_SCOPES = ["products:read", "webhooks:write"]


def events() -> Events:
    app = {"id": APP_ID, "name": APP_NAME, "scopes": _SCOPES}
    return {
        AppInstalled.name: EventExample(APP_ID, 1, app),
        AppScopesChanged.name: EventExample(APP_ID, 2, app, {"scopes": [_SCOPES[:1], _SCOPES]}),
        AppUninstalled.name: EventExample(APP_ID, 3, app),
    }
