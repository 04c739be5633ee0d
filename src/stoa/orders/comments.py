"""The endpoints of an order's timeline."""

from stoa.events.outbox import emit
from stoa.orders import queries
from stoa.orders.bodies import NewComment
from stoa.orders.documents import actor_of, author_of
from stoa.orders.events import OrderCommentCreated
from stoa.orders.examples import NEW_COMMENT
from stoa.orders.lists import COMMENTS, Comment
from stoa.rest.call import Call, Subject
from stoa.rest.endpoint import Created, Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.problems import NotFound

routes = Routes("Orders")


@routes.get("/orders/{order_id}/comments", scope="orders:read", lists=COMMENTS)
async def list_order_comments(call: Call, order_id: int, query: ListQuery) -> Page[Comment]:
    """List an order's timeline.

    Returns comments and recorded changes with their authors, newest first. To get the entries that a customer may see,
    filter by `visibility=customer`.
    """
    if await queries.EXISTS.maybe(call.db, call.store_id, order_id) is None:
        raise NotFound("There is no order with this id.")
    return await list_page(call.db, call.store_id, queries.COMMENTS, query.with_filter("order_id", order_id))


@routes.post("/orders/{order_id}/comments", scope="orders:write", example=NEW_COMMENT)
async def create_order_comment(call: Call, order_id: int, body: NewComment) -> Created[Comment]:
    """Add a comment to an order's timeline.

    Comments cannot be changed. A comment is internal to the store unless `visibility` is `customer`.
    """
    if await queries.LOCK_SHARED.maybe(call.db, call.store_id, order_id) is None:
        raise NotFound("There is no order with this id.")
    call.subject = Subject("order", order_id)
    author = author_of(call)
    added = await queries.ADD_COMMENT.one(
        call.db, call.store_id, order_id, "comment", body.visibility, body.body, author
    )
    event = OrderCommentCreated(added.id, 1, added.doc.decode(), {})
    await emit(call.db, call.store_id, event, actor=actor_of(call), request_id=call.request_id)
    return Created(added.doc, 1, f"/orders/{order_id}/comments")
