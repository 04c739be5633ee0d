/* Enhancements: samples that follow the console, tabs, copy buttons, and schemas that unfold.
   The page works without them; everything about an operation is read from its rows. */
const declaredBase = document.body.dataset.base;
const origin = declaredBase.replace(/(\/\/[^/]+).*/, "$1");
// The document has one origin for everyone; replace it by the origin of this page.
const here = (text) => (origin ? text.replaceAll(origin, location.origin) : text);
const baseUrl = () => (memory.get("base") || here(declaredBase)).replace(/\/+$/, "");
const showBase = () => {
  for (const code of $$(".base")) code.textContent = baseUrl();
};
showBase();

const operations = new Map($$(".operation").map((section) => [section.id, { section }]));

/* Reads the fields of an operation once, and fills the required ones with their samples. */
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
      integers: /array of integer/.test($(".type", row)?.textContent),
      sample: row.dataset.sample,
      operators: row.dataset.operators?.split(" ") ?? [],
      choices: $$(".values code", row).map((each) => each.textContent),
    })),
  );
  operation.typed = new Set(); // the names of values that the reader has entered
  operation.values = new Map(operation.fields.filter(({ sample }) => sample).map(({ name, sample }) => [name, sample]));
  operation.media = $(".media code", section)?.textContent;
  operation.body = section.dataset.body ?? null;
  operation.sources = Object.fromEntries(
    $$(".request", section).map((card) => [card.firstElementChild.textContent, $("code", card).textContent]),
  );
  operation.declared = requestOf(operation, declaredBase);
}

const sampleOf = (operation, language) =>
  withValues(language, operation.sources[language], operation.declared, requestOf(operation));

function requestOf({ section, fields, values, media, body }, base = baseUrl()) {
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
  const url = base + filled + (query.length ? `?${query.join("&")}` : "");
  return { method, base, url, headers, body: sent, media, ...inSdk(section, fields, values) };
}

/* What a call of an SDK needs. */
function inSdk(section, fields, values) {
  const query = fields.filter(({ where }) => where === "query");
  const named = query.flatMap(({ name, kind, integers, operators }) => [
    [name, values.get(name), integers ? "integers" : kind],
    ...operators.map((operator) => [`${name}[${operator}]`, values.get(`${name}[${operator}]`), kind]),
  ]);
  return {
    path: [...section.dataset.path.matchAll(/{(\w+)}/g)].map(([, name]) => values.get(name) ?? ""),
    query: named.filter(([, value]) => value),
  };
}

function entries(name, text) {
  const pairs = text.split(",").map((pair) => pair.split("="));
  return pairs.map(([key, ...value]) => [`${name}[${key.trim()}]`, value.join("=").trim()]);
}

// Commas, colons and brackets need no encoding in a query, and are easier to read.
const spelled = (text) => encodeURIComponent(text).replace(/%(2C|3A|5B|5D)/g, decodeURIComponent);

/* Tabs: arrow keys move between them, and only the selected one is in the tab order. */
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
      button.textContent = "Copy failed";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

let language = memory.get("language") in VALUES ? memory.get("language") : "curl";

function setLanguage(name) {
  language = name;
  memory.set("language", name);
  for (const operation of operations.values()) if (operation.tabs) show(operation);
}

/* The store of all samples; a base URL with a host of its own, set in the console, has no handle to show. */
const store = $("#store");
const handleOf = (url) => url.match(/\/stores\/([^/]+)$/)?.[1] ?? "";
const baseOf = (handle) => (handle ? here(declaredBase).replace(/[^/]*$/, encodeURIComponent(handle)) : "");
store.value = handleOf(baseUrl());
store.addEventListener("input", () => useBase(baseOf(store.value.trim())));
store.addEventListener("focus", async () => {
  const handles = ((await portal()) ?? { apps: [] }).apps.flatMap(({ stores }) => stores.map(({ handle }) => handle));
  $("#stores").replaceChildren(...[...new Set(handles)].map((value) => h("option", { value })));
});

function useBase(url) {
  memory.set("base", url);
  showBase();
  setLanguage(language);
}

/* The apps and stores of a reader who is signed in to the portal, and null for others, who are redirected. */
const JSON_ONLY = { headers: { Accept: "application/json" }, redirect: "manual" };
let asked = null;
function portal() {
  asked ??= fetch("/portal/access-token", JSON_ONLY)
    .then((response) => (response.ok ? response.json() : null))
    .catch(() => null)
    .then((found) => found ?? (asked = null));
  return asked;
}

function show(operation) {
  operation.tabs.mark(language);
  operation.code.replaceChildren(colored(sampleOf(operation, language)));
}

/* The rows of an object: in the template of an operation, or on the page. */
const fieldsOf = (name) =>
  $("#objects")?.content.querySelector(`[data-object="${name}"]`) ?? $(`[id="schema-${name}"] > .rows`);

/* A section is enhanced when it comes near the viewport, so that a long page is as fast as a short one. */
function enhance(section) {
  near.unobserve(section);
  if (section.dataset.enhanced) return;
  section.dataset.enhanced = "";
  const operation = operations.get(section.id);
  if (operation) prepare(operation);
  for (const program of $$(".alternative", section)) program.remove();
  for (const pre of $$(".card pre", section)) {
    const caption = pre.previousElementSibling;
    const code = pre.firstChild;
    const copy = copyButton(() => pre.textContent);
    if (operation && pre.parentElement.matches(".request")) {
      operation.code = code;
      operation.tabs = tabs("Language", Object.keys(operation.sources), setLanguage);
      operation.opener = h("button", { type: "button", className: "try", textContent: "Try it" });
      operation.opener.addEventListener("click", () => openConsole(operation));
      caption.replaceChildren(operation.tabs, copy, operation.opener);
      show(operation);
    } else {
      caption.append(copy);
      code.replaceChildren(colored(here(code.textContent)));
    }
  }
}

const near = new IntersectionObserver(
  (changes) => {
    for (const { target, isIntersecting } of changes) if (isIntersecting) enhance(target);
  },
  { rootMargin: "100% 0px" },
);
for (const section of $$(".pair, .schema, .guide")) near.observe(section);

/* A button below a field unfolds the fields of its object, inside the row. */
document.addEventListener("click", (event) => {
  const button = event.target.closest(".unfold");
  if (!button) return;
  const name = button.dataset.of;
  const row = button.closest(".rows > div");
  const open = $(`:scope > [data-object-of="${name}"]`, row);
  button.ariaExpanded = !open;
  button.textContent = button.textContent.replace(/Show|Hide/, open ? "Show" : "Hide");
  if (open) return open.remove();
  const rows = (fieldsOf(name) ?? fieldsOf(name.replace("Sparse", ""))).cloneNode(true);
  for (const nested of $$(".nest", rows)) nested.remove();
  for (const target of $$("[id]", rows)) target.removeAttribute("id");
  for (const inner of $$(".unfold", rows)) {
    inner.ariaExpanded = false;
    inner.textContent = inner.textContent.replace("Hide", "Show");
  }
  row.append(h("dd", { className: "nest", "data-object-of": name }, rows));
});
