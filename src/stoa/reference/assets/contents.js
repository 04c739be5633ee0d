/* The contents: a filter, and the current entry scrolled into view. */
const contents = $("#contents");
const filter = $("#filter");

const folds = $$("details", contents);
const links = $$("li a", contents).map((link) => {
  const words = [link.textContent, link.getAttribute("href"), link.dataset.words];
  return { link, text: words.join(" ").toLowerCase() };
});
for (const fold of folds) fold.dataset.open = fold.open || "";

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { link, text } of links) {
    const hit = words.every((word) => text.includes(word));
    link.parentElement.hidden = !hit;
    count += hit;
  }
  for (const part of $$("details, :scope > ul", contents)) part.hidden = !$("li:not([hidden])", part);
  for (const fold of folds) fold.open = words.length > 0 || fold.dataset.open !== "";
  $("#found").textContent = words.length ? (count ? `${count} of ${links.length}` : "No matches.") : "";
}

filter.addEventListener("input", narrow);
filter.addEventListener("keydown", (event) => {
  const first = links.find(({ link }) => !link.parentElement.hidden)?.link;
  if (event.key === "Enter") first?.click();
  if (event.key === "ArrowDown") {
    event.preventDefault();
    first?.focus();
  }
  if (event.key === "Escape" && filter.value) {
    event.preventDefault();
    filter.value = "";
    narrow();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  if (getComputedStyle(contents).display === "none") contents.showPopover();
  filter.focus();
});

contents.addEventListener("click", (event) => {
  if (event.target.closest("a") && contents.matches(":popover-open")) contents.hidePopover();
});

const now = $("[aria-current]", contents);
if (now && now.offsetTop + now.offsetHeight > contents.clientHeight - 32) {
  contents.scrollTop = now.offsetTop - contents.clientHeight / 3;
}
