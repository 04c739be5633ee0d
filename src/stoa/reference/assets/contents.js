/* The contents: the current entry is scrolled into view, and a chosen entry closes the popover of a narrow window. */
const contents = $("#contents");

contents.addEventListener("click", (event) => {
  if (event.target.closest("a") && contents.matches(":popover-open")) contents.hidePopover();
});

const now = $("[aria-current]", contents);
if (now && now.offsetTop + now.offsetHeight > contents.clientHeight - 32) {
  contents.scrollTop = now.offsetTop - contents.clientHeight / 3;
}
