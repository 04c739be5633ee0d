"""Two ways to use a page, with the same words: by pointing at things, and with the keyboard alone."""

from playwright.async_api import Locator, Page, expect

_MOST_TABS = 200


class Hands:
    """Somebody before a page. Whatever they come to see must fit the width of the screen."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def press(self, what: Locator) -> None:
        await what.click()

    async def write(self, what: Locator, words: str) -> None:
        await what.fill(words)

    async def tick(self, what: Locator) -> None:
        await what.check()

    async def choose(self, what: Locator, words: str) -> None:
        """Take the option that begins with these words."""
        options = await what.locator("option").all_inner_texts()
        await what.select_option(label=next(each for each in options if each.startswith(words)))

    async def see(self, what: Locator) -> None:
        await expect(what).to_be_visible()
        width: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert width <= 0, f"{self.page.url} is {width} pixels too wide"

    async def copied(self, what: str) -> str:
        """Press the button that copies this; answers what is on the clipboard then."""
        await self.press(self.button(f"Copy {what}"))
        await expect(self.button(f"Copied {what}")).to_be_visible()
        return await self.page.evaluate("navigator.clipboard.readText()")

    # The names of things, as people read them.

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        return self.page.get_by_role("main").get_by_role("link", name=name, exact=True)

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name, exact=True)

    def field(self, label: str) -> Locator:
        """The field with this label; where there are several, the last one that can be seen."""
        return self.page.get_by_label(label, exact=True).locator("visible=true").last

    def words(self, said: str) -> Locator:
        return self.page.get_by_text(said).first


class Keyboard(Hands):
    """Never a mouse: Tab until the thing has the focus and shows it, then Enter, Space or letters."""

    async def press(self, what: Locator) -> None:
        await self._reach(what)
        await self.page.keyboard.press("Enter")

    async def write(self, what: Locator, words: str) -> None:
        await self._reach(what)
        await self.page.keyboard.press("Control+A")
        await self.page.keyboard.type(words)

    async def tick(self, what: Locator) -> None:
        await self._reach(what)
        await self.page.keyboard.press("Space")
        await expect(what).to_be_checked()

    async def choose(self, what: Locator, words: str) -> None:
        await self._reach(what)
        await self.page.keyboard.type(words)
        chosen: str = await what.evaluate("node => node.selectedOptions[0].text")
        assert chosen.startswith(words)

    async def _reach(self, what: Locator) -> None:
        for _ in range(_MOST_TABS):
            if await what.evaluate("node => node === document.activeElement"):
                outline: str = await what.evaluate("node => getComputedStyle(node).outlineStyle")
                assert outline != "none", f"{what} does not show that it has the focus"
                return
            await self.page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard does not reach {what}")
