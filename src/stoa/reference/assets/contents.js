/* The contents: a filter over them, and a mark at the place where the reader is. */
const contents = $("#contents");
const filter = $("#filter");

const places = $$("li a", contents).map((link) => {
  const section = document.getElementById(link.hash.slice(1));
  const { method = "", path = "" } = section.dataset;
  const words = [link.textContent, link.hash, method, path, $(".scope", section)?.textContent];
  return { link, section, text: words.join(" ").toLowerCase() };
});

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { link, text } of places) {
    const hit = words.every((word) => text.includes(word));
    link.parentElement.hidden = !hit;
    count += hit;
  }
  for (const part of $$("section, :scope > ul", contents)) part.hidden = !$("li:not([hidden])", part);
  $("#found").textContent = words.length ? (count ? `${count} of ${places.length}` : "Nothing by that name.") : "";
}

filter.addEventListener("input", narrow);
filter.addEventListener("keydown", (event) => {
  const first = places.find(({ link }) => !link.parentElement.hidden)?.link;
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

const inView = new Set();
const whereabouts = new IntersectionObserver(
  (changes) => {
    for (const { target, isIntersecting } of changes) inView[isIntersecting ? "add" : "delete"](target);
    const now = places.findLast(({ section }) => inView.has(section))?.link;
    if (!now || now.ariaCurrent) return;
    for (const { link } of places) link.ariaCurrent = null;
    now.ariaCurrent = "location";
    const { offsetTop, offsetHeight } = now;
    const { scrollTop, clientHeight } = contents;
    const hidden = offsetTop < scrollTop + 96 || offsetTop + offsetHeight > scrollTop + clientHeight - 32;
    if (hidden) contents.scrollTop = offsetTop - clientHeight / 3;
  },
  { rootMargin: "0px 0px -70% 0px" },
);
for (const { section } of places) whereabouts.observe(section);
