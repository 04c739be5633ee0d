"""Request log pages: the requests of an app with filters, and one request."""

from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.request_log import request_of, requests_of
from stoa.portal.kit.visit import Visit

pages = Pages()


@pages.page("/apps/{app_id:int}/requests", nav="list_apps")
async def app_requests(visit: Visit) -> View:
    return View("apps/requests.html", await requests_of(visit, visit.app.id))


@pages.page("/apps/{app_id:int}/requests/{logged_id:int}", nav="list_apps")
async def app_request(visit: Visit) -> View:
    return View("apps/request.html", await request_of(visit, visit.app.id))
