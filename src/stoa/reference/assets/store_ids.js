/* Path parameters of the console: ids of the chosen store instead of the samples, as soon as there is a token to read them. */
const INNER = { variant_id: "variants", line_item_id: "line_items", address_id: "addresses" };
const lists = new Map(); // what was read, by token and URL

/* The list that a path parameter is from, such as /api/v3/app/orders. */
const listOf = (path) => path.slice(0, path.indexOf("/{"));
const importKey = (list) => `import ${baseUrl()}${list}`;

async function readList(url) {
  const headers = { Authorization: `Bearer ${memory.get("token")}` };
  const signal = AbortSignal.timeout(10_000);
  const response = await fetch(url, { headers, signal, credentials: "omit", cache: "no-store" });
  return response.ok ? (await response.json()).data : [];
}

/* The ids of the first resource; a path with two parameters needs one that has such a part. */
async function storeIds(path) {
  const [outer, part] = [...path.matchAll(/{(\w+)}/g)].map(([, name]) => name);
  const list = listOf(path);
  // Imports cannot be listed: the last one that this tab has started.
  if (outer === "import_id") return { import_id: memory.get(importKey(list)) };
  const url = `${baseUrl()}${list}?limit=20${part === "variant_id" ? "&include=variants" : ""}`;
  const key = `${memory.get("token")} ${url}`;
  if (!lists.has(key)) lists.set(key, await readList(url).catch(() => []));
  const found = lists.get(key);
  const first = found.find((each) => !part || each[INNER[part]]?.length) ?? found[0];
  return { [outer]: first?.id, ...(part ? { [part]: first?.[INNER[part]]?.[0]?.id } : {}) };
}

/* Fills in the ids that the reader has not entered; a store without such a resource leaves them empty. */
async function useStoreIds() {
  const operation = current;
  const { path } = operation.section.dataset;
  if (!path.includes("{") || !URL.canParse(base.value) || new URL(base.value).origin !== location.origin) return;
  const chosen = subject();
  if (!(await getOwnToken()) || !memory.get("token")) return;
  const ids = await storeIds(path);
  if (operation !== current || chosen !== subject()) return; // the reader has moved on
  operation.filled = false;
  for (const [name, id] of Object.entries(ids)) {
    if (operation.typed.has(name)) continue;
    operation.values.set(name, id ? `${id}` : "");
    operation.filled ||= Boolean(id);
    const input = $(`input[name="${name}"]`, fields);
    if (input) input.value = operation.values.get(name);
  }
  const missing = Object.keys(ids).some((name) => !operation.values.get(name));
  message.textContent = missing ? "This store has no such resource yet. Create one, or enter an id." : "";
  refresh();
  show(operation);
}

function fillIds() {
  filling = useStoreIds();
}

/* After a change, the lists are read again; an import that was started is the one to look at. */
function noteResult({ method, url }, response, text) {
  if (method === "GET") return;
  lists.clear();
  const [target] = url.split("?");
  if (response.ok && target.endsWith("/imports")) {
    memory.set(importKey(target.slice(baseUrl().length)), JSON.parse(text).data?.id ?? "");
  }
}
