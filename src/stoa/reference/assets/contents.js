/* The contents: the current entry is scrolled into view, and a chosen entry closes the popover of a narrow window.
   The theme changes in place, so that the page keeps its position and what was typed. */
const contents = $("#contents");

contents.addEventListener("click", (event) => {
  if (event.target.closest("a") && contents.matches(":popover-open")) contents.hidePopover();
});

const now = $("[aria-current]", contents);
if (now && now.offsetTop + now.offsetHeight > contents.clientHeight - 32) {
  contents.scrollTop = now.offsetTop - contents.clientHeight / 3;
}

$(".theme").addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, submitter));
  const stored = await fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => null);
  if (stored?.type !== "opaqueredirect") return;
  document.documentElement.dataset.theme = submitter.value;
  for (const button of $$("button", form)) button.ariaPressed = button === submitter;
});
