"""Request log pages for operators: the requests of any app."""

from stoa.portal.kit.pages import Audience, Pages, View
from stoa.portal.kit.request_log import request_of, requests_of
from stoa.portal.kit.visit import Visit
from stoa.portal.operators.directory import found_app

pages = Pages()


@pages.page("/operators/apps/{app:int}/requests", audience=Audience.OPERATOR, nav="operator_apps")
async def operator_app_requests(visit: Visit) -> View:
    app = await found_app(visit)
    return View("operators/requests.html", {"app": app, **await requests_of(visit, app.id)})


@pages.page("/operators/apps/{app:int}/requests/{logged_id:int}", audience=Audience.OPERATOR, nav="operator_apps")
async def operator_app_request(visit: Visit) -> View:
    app = await found_app(visit)
    return View("operators/request.html", {"app": app, **await request_of(visit, app.id)})
