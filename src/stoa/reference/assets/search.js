/* The search box of the documentation, and the palette of the portal: `/` and Ctrl-K open it. */
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

const opener = document.querySelector("[title][data-search]");
const list = make("div", { role: "listbox", id: "search-results", "aria-label": "Results" });
const input = make("input", {
  type: "search",
  name: "q",
  role: "combobox",
  placeholder: opener.title,
  "aria-label": opener.title,
  "aria-controls": list.id,
  "aria-expanded": "false",
  "aria-autocomplete": "list",
  maxlength: 100,
  autocomplete: "off",
  autocapitalize: "off",
  spellcheck: "false",
});
const closing = make("button", { type: "button", "aria-label": "Close the search" }, "Esc");
const summary = make("p", { role: "status" });
const form = make("form", { action: opener.href, role: "search" }, input, closing);
const box = make("dialog", { id: "search-box", "aria-label": "Search" }, form, list, summary);
document.body.append(box);

let active = -1;
let shown = ""; // the query of the results
let pending = null;
let timer = 0;

function select(index) {
  active = index;
  for (const [number, option] of [...list.children].entries()) {
    option.setAttribute("aria-selected", `${number === index}`);
    if (number === index) option.scrollIntoView({ block: "nearest" });
  }
  if (index < 0) input.removeAttribute("aria-activedescendant");
  else input.setAttribute("aria-activedescendant", list.children[index].id);
}

function optionOf({ kind, title, address, context, excerpt }, index) {
  const pieces = excerpt.map(({ text, marked }) => (marked ? make("mark", {}, text) : text));
  const heading = make("span", {}, make("b", {}, title), make("small", {}, context || ""), make("i", {}, kind));
  const attributes = { role: "option", id: `search-result-${index}`, href: address, tabindex: -1 };
  return make("a", attributes, heading, make("span", { class: "excerpt" }, ...pieces));
}

function show(query, results) {
  list.replaceChildren(...results.map(optionOf));
  shown = query;
  input.setAttribute("aria-expanded", `${results.length > 0}`);
  select(results.length ? 0 : -1);
  const count = results.length === 1 ? "1 result" : `${results.length} results`;
  summary.textContent = !query ? "" : results.length ? count : `Nothing matches “${query}”.`;
}

async function search() {
  pending?.abort();
  const query = input.value.trim();
  if (!query) return show("", []);
  pending = new AbortController();
  try {
    const response = await fetch(`${opener.dataset.search}?q=${encodeURIComponent(query)}`, {
      signal: pending.signal,
      headers: { accept: "application/json" },
    });
    if (!response.ok) throw new Error(response.statusText);
    const { results, partial, away = [] } = await response.json();
    show(query, results);
    if (away.length) summary.textContent += ` Without the stores of ${away.join(", ")}, which did not answer.`;
    if (partial) {
      if (!results.length) summary.textContent = "Searching …"; // the index of the documentation is not ready yet
      timer = setTimeout(search, 400);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    show("", []);
    summary.textContent = "The search failed. Press Enter to try again.";
  }
}

function open() {
  if (box.open) return;
  box.showModal();
  input.focus();
  input.select();
}

input.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(search, 80);
});
input.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const count = list.children.length;
  if (step && count) {
    event.preventDefault();
    select((active + step + count) % count);
  }
  // A fast typist must not open an earlier result.
  if (event.key === "Enter" && active >= 0 && input.value.trim() === shown) {
    event.preventDefault();
    list.children[active].click();
  }
});
box.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  event.preventDefault(); // a search field would only be emptied
  event.stopPropagation();
  box.close();
});
box.addEventListener("click", (event) => {
  if (event.target === box || event.target === closing || event.target.closest("[role=option]")) box.close();
});

document.addEventListener("keydown", (event) => {
  const shortcut = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
  const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey;
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (!shortcut && (!slash || typing)) return;
  event.preventDefault();
  open();
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-search]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open();
});
for (const link of document.querySelectorAll("[data-search]")) link.setAttribute("aria-haspopup", "dialog");
