"""Two ways to use a page with the same interface, a pointer and only the keyboard, and the number of clicks of a story."""

from playwright.async_api import Locator, Page, expect

_MAX_TABS = 200


class Clicks:
    """Counts the clicks of a story."""

    def __init__(self) -> None:
        self.count = 0

    async def on(self, target: Locator) -> None:
        self.count += 1
        await target.click()


class Pointer:
    """Uses a page with a pointer, and checks that the page fits the width of the screen."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def click(self, target: Locator) -> None:
        await target.click()

    async def fill(self, target: Locator, text: str) -> None:
        await target.fill(text)

    async def check(self, target: Locator) -> None:
        await target.check()

    async def select(self, target: Locator, text: str) -> None:
        """Select the option that starts with this text."""
        options = await target.locator("option").all_inner_texts()
        await target.select_option(label=next(each for each in options if each.startswith(text)))

    async def expect_visible(self, target: Locator) -> None:
        await expect(target).to_be_visible()
        width: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert width <= 0, f"{self.page.url} is {width} pixels too wide"

    async def copy(self, name: str) -> str:
        """Click the copy button of this name; return the content of the clipboard."""
        await self.click(self.button(f"Copy {name}"))
        await expect(self.button(f"Copied {name}")).to_be_visible()
        return await self.page.evaluate("navigator.clipboard.readText()")

    # Locators by visible name.

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        """A link of the page, or to another page of the same store or app."""
        return self.page.locator("main, .within").get_by_role("link", name=name, exact=True)

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name, exact=True)

    def field(self, label: str) -> Locator:
        """The field with this label; the last visible one if there are several."""
        return self.page.get_by_label(label, exact=True).locator("visible=true").last

    def text(self, content: str) -> Locator:
        return self.page.get_by_text(content).first


class Keyboard(Pointer):
    """Uses only the keyboard: Tab until the target has a visible focus, then Enter, Space or text."""

    async def click(self, target: Locator) -> None:
        await self._focus(target)
        await self.page.keyboard.press("Enter")

    async def fill(self, target: Locator, text: str) -> None:
        await self._focus(target)
        await self.page.keyboard.press("Control+A")
        await self.page.keyboard.type(text)

    async def check(self, target: Locator) -> None:
        await self._focus(target)
        await self.page.keyboard.press("Space")
        await expect(target).to_be_checked()

    async def select(self, target: Locator, text: str) -> None:
        await self._focus(target)
        await self.page.keyboard.type(text)
        selected: str = await target.evaluate("node => node.selectedOptions[0].text")
        assert selected.startswith(text)

    async def _focus(self, target: Locator) -> None:
        node = await target.element_handle()  # once: finding an element by its role is slower than a key
        for _ in range(_MAX_TABS):
            outline: str = await node.evaluate(
                "node => node === document.activeElement ? getComputedStyle(node).outlineStyle : ''"
            )
            if outline:
                assert outline != "none", f"{target} does not show its focus"
                return
            await self.page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard cannot reach {target}")
