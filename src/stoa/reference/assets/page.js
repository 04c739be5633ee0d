/* What the page gains by script: samples that follow the fields, tabs, copying, schemas that unfold, the filter.
   The text needs none of it; whatever must be known of an operation is read from the rows that people read. */
const written = document.body.dataset.base;
const origin = written.replace(/(\/\/[^/]+).*/, "$1");
// The document names an address for everyone; this page knows the one it was read at.
const here = (text) => (origin ? text.replaceAll(origin, location.origin) : text);
const baseUrl = () => (memory.get("base") || here(written)).replace(/\/+$/, "");
for (const code of $$(".base")) code.textContent = here(code.textContent);

const operations = new Map($$(".operation").map((section) => [section.id, { section }]));

/* Reads the fields of an operation once, and gives those that are required their sample. */
function prepare(operation) {
  if (operation.fields) return;
  const { section } = operation;
  operation.fields = $$(".rows[data-in]:not([data-in=body])", section).flatMap((list) =>
    [...list.children].map((row) => ({
      row,
      name: $("dt > code", row).textContent,
      where: list.dataset.in,
      group: list.previousElementSibling.textContent,
      kind: row.dataset.kind,
      sample: row.dataset.sample,
      operators: row.dataset.operators?.split(" ") ?? [],
      choices: $$(".values code", row).map((each) => each.textContent),
    })),
  );
  operation.values = new Map(operation.fields.filter(({ sample }) => sample).map(({ name, sample }) => [name, sample]));
  operation.media = $(".media code", section)?.textContent;
  operation.body = $(".request .body", section)?.textContent.replaceAll("'\\''", "'") ?? null;
}

function requestOf({ section, fields, values, media, body }) {
  const { method, path } = section.dataset;
  const given = (where) =>
    fields
      .filter((field) => field.where === where)
      .flatMap(({ name, kind, operators }) => [
        { name, kind },
        ...operators.map((operator) => ({ name: `${name}[${operator}]` })),
      ])
      .filter(({ name }) => values.get(name))
      .flatMap(({ name, kind }) => (kind === "object" ? entries(name, values.get(name)) : [[name, values.get(name)]]));
  const filled = path.replace(/{(\w+)}/g, (whole, name) => encodeURIComponent(values.get(name) ?? "") || whole);
  const query = given("query").map(([name, value]) => `${spelled(name)}=${spelled(value)}`);
  const sent = body?.trim() ? body : null;
  const headers = [...(sent === null ? [] : [["Content-Type", media]]), ...given("header")];
  const url = baseUrl() + filled + (query.length ? `?${query.join("&")}` : "");
  return { method, url, headers, body: sent, ...inSdk(section, fields, values), media };
}

/* What the Python SDK needs to know of it. */
function inSdk(section, fields, values) {
  const asked = fields.filter(({ where }) => where === "query");
  const ranged = asked.flatMap(({ name, kind, operators }) => [
    [name, values.get(name), kind],
    ...operators.map((operator) => [`${name}[${operator}]`, values.get(`${name}[${operator}]`), kind]),
  ]);
  return {
    call: section.dataset.call,
    spreads: "spreads" in section.dataset,
    lists: asked.some(({ name }) => name === "cursor"),
    answers: $(".card.answer pre", section) !== null,
    place: [...section.dataset.path.matchAll(/{(\w+)}/g)].map(([, name]) => values.get(name) ?? ""),
    query: ranged.filter(([, value]) => value),
  };
}

function entries(name, text) {
  const pairs = text.split(",").map((pair) => pair.split("="));
  return pairs.map(([key, ...value]) => [`${name}[${key.trim()}]`, value.join("=").trim()]);
}

// Commas, colons and brackets stand for themselves in a query, and read better so.
const spelled = (text) => encodeURIComponent(text).replace(/%(2C|3A|5B|5D)/g, decodeURIComponent);

/* Tabs, one pattern for all: arrows move between them, and only the chosen one is in the tab order. */
function tabs(label, names, choose) {
  const buttons = names.map((name) =>
    h("button", { type: "button", role: "tab", textContent: name, onclick: () => choose(name) }),
  );
  const list = h("div", { role: "tablist", "aria-label": label, className: "tabs" }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (buttons.indexOf(document.activeElement) + step + names.length) % names.length;
    buttons[next].focus();
    choose(names[next]);
  });
  list.mark = (name) => {
    for (const button of buttons) {
      button.ariaSelected = button.textContent === name;
      button.tabIndex = button.textContent === name ? 0 : -1;
    }
  };
  return list;
}

function copyButton(text) {
  const button = h("button", { type: "button", className: "copy", textContent: "Copy" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

let language = memory.get("language") in LANGUAGES ? memory.get("language") : "curl";

function speak(name) {
  language = name;
  memory.set("language", name);
  for (const operation of operations.values()) if (operation.tabs) show(operation);
}

function show(operation) {
  operation.tabs.mark(language);
  operation.code.replaceChildren(coloured(LANGUAGES[language](requestOf(operation))));
}

/* A section is dressed when it comes near, so that a long page costs no more than a short one. */
function dress(section) {
  near.unobserve(section);
  if (section.dataset.dressed) return;
  section.dataset.dressed = "";
  for (const program of $$(".alternative", section)) program.remove();
  for (const pre of $$(".card pre", section)) {
    const caption = pre.previousElementSibling;
    const code = pre.firstChild;
    const copy = copyButton(() => pre.textContent);
    const operation = operations.get(section.id);
    if (operation && pre.parentElement.matches(".request")) {
      prepare(operation);
      operation.code = code;
      operation.tabs = tabs("Language", Object.keys(LANGUAGES), speak);
      operation.opener = h("button", { type: "button", className: "try", textContent: "Try it" });
      operation.opener.addEventListener("click", () => openConsole(operation));
      caption.replaceChildren(operation.tabs, copy, operation.opener);
      show(operation);
    } else {
      caption.append(copy);
      code.replaceChildren(coloured(here(code.textContent)));
    }
  }
  for (const link of $$(".rows .ref", section)) link.ariaExpanded = false;
}

const near = new IntersectionObserver(
  (changes) => {
    for (const { target, isIntersecting } of changes) if (isIntersecting) dress(target);
  },
  { rootMargin: "100% 0px" },
);
for (const section of $$(".pair, .schema, .guide")) near.observe(section);

/* A schema that a row names unfolds below it; in a new tab, or without script, the link leads to it. */
document.addEventListener("click", (event) => {
  const link = event.target.closest(".rows .ref");
  const source = link && document.getElementById(link.hash.slice(1));
  if (!source || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const row = link.closest(".rows > div");
  const open = $(`:scope > [data-of="${link.hash}"]`, row);
  link.ariaExpanded = !open;
  if (open) return open.remove();
  const rows = $(":scope > .rows", source).cloneNode(true);
  for (const nested of $$(".nest", rows)) nested.remove();
  for (const inner of $$(".ref", rows)) inner.ariaExpanded = false;
  row.append(h("dd", { className: "nest", "data-of": link.hash }, rows));
});
