"""Lists that are fetched page by page, as far as they are read."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from stoa_client.answers import Page
from stoa_client.errors import UnexpectedAnswer

T = TypeVar("T")


class Cursors:
    """The cursors of one iteration. A repeated one would return the same pages for ever."""

    def __init__(self) -> None:
        self._followed: set[str] = set()

    def follow(self, cursor: str | None) -> str | None:
        """The cursor of the next page; raises UnexpectedAnswer if its page was read before."""
        if cursor is not None:
            if cursor in self._followed:
                raise UnexpectedAnswer("the service repeated the cursor of an earlier page", 200, cursor.encode())
            self._followed.add(cursor)
        return cursor


class Pages(Generic[T]):
    """The resources of a list over all its pages; a page is fetched only when it is read."""

    def __init__(self, read: Callable[[Mapping[str, Any]], Page[T]]) -> None:
        self._read = read

    def page(self) -> Page[T]:
        """Only the first page, with the exact `total`."""
        return self._read({})

    def pages(self) -> Iterator[Page[T]]:
        """All pages."""
        page, cursors = self._read({}), Cursors()
        yield page
        while cursor := cursors.follow(page.next_cursor):
            page = self._read({"cursor": cursor, "page": None})
            yield page

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.data

    def first(self) -> T | None:
        """The first resource, or None."""
        return next(iter(self.page().data), None)


class AsyncPages(Generic[T]):
    """The resources of a list over all its pages, to be read with `async for`."""

    def __init__(self, read: Callable[[Mapping[str, Any]], Awaitable[Page[T]]]) -> None:
        self._read = read

    async def page(self) -> Page[T]:
        return await self._read({})

    async def pages(self) -> AsyncIterator[Page[T]]:
        page, cursors = await self._read({}), Cursors()
        yield page
        while cursor := cursors.follow(page.next_cursor):
            page = await self._read({"cursor": cursor, "page": None})
            yield page

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for each in page.data:
                yield each

    async def first(self) -> T | None:
        return next(iter((await self.page()).data), None)
