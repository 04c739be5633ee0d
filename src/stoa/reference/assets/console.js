/* The console: one panel in which readers edit and send the request of an operation. */
const panel = $("#console");
const [fields, tokenForm] = [$(".fields", panel), $(".token-form", panel)];
const [base, token, sendButton] = [$("[name=base]", panel), $("[name=token]", panel), $(".send", panel)];
const [message, output] = [$(".action .message", panel), $("pre", panel)];
const RESPONSE = "Response";
const HINTS = { object: "key=value", array: "1,2,3", "date-time": "2026-01-31T12:00:00Z", "decimal string": "19.99" };
const LARGE = 400_000; // formatting and coloring more than this would block the page

let current, received, view;
let filling = null; // the search for ids of the store, which a request waits for

const views = tabs("Output", [...Object.keys(VALUES), RESPONSE], (name) => {
  view = name;
  if (name !== RESPONSE) setLanguage(name);
  refresh();
});
$(".bar", panel).append(
  views,
  copyButton(() => output.textContent),
);

base.value = baseUrl();
base.addEventListener("input", () => {
  useBase(base.value.trim());
  store.value = handleOf(baseUrl());
  useNoApp();
});
base.addEventListener("change", fillIds);
token.value = memory.get("token");
token.addEventListener("input", () => {
  keepToken(token.value.trim());
  useNoApp();
});
token.addEventListener("change", fillIds);
tokenForm.addEventListener("submit", getToken);
fields.addEventListener("submit", send);
$(".close", panel).addEventListener("click", () => panel.close());
panel.addEventListener("close", () => current.opener.focus());
panel.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
});
// Also while the focus is beside the panel, but not while another dialog is above it.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !panel.open || $$("dialog:modal").some((dialog) => dialog !== panel)) return;
  event.preventDefault();
  panel.close();
});

async function openConsole(operation) {
  base.value = baseUrl();
  load(operation);
  const offered = offerApps();
  $(".connection", panel).open = !memory.get("token");
  // Beside the text in a wide window, above it in a narrow one.
  if (!panel.open) matchMedia("(min-width: 82rem)").matches ? panel.show() : panel.showModal();
  const first = $("input, select, textarea", fields) ?? sendButton;
  (memory.get("token") ? first : token).focus();
  filling = offered.then(useStoreIds);
  if ((await offered) && document.activeElement === token) first.focus({ preventScroll: true });
}

function load(operation) {
  if (current !== operation) [received, message.textContent] = [null, ""];
  [current, view] = [operation, language];
  enhance(operation.section);
  const { method } = operation.section.dataset;
  const badge = h("b", { className: `method ${method.toLowerCase()}` }, method);
  $("h2", panel).replaceChildren(badge, $("h1", operation.section).textContent);
  fill();
  refresh();
}

function fill() {
  const groups = new Map();
  for (const field of current.fields) groups.set(field.group, [...(groups.get(field.group) ?? []), field]);
  const parts = [...groups].map(([name, members], index) => {
    const used = members.some((field) => current.values.get(field.name));
    return part(name, members.length, used || (index === 0 && current.body === null), members.map(control));
  });
  if (current.body !== null) parts.splice(groups.has("Path") ? 1 : 0, 0, part("Body", "JSON", true, [editor()]));
  fields.replaceChildren(...parts);
}

function part(name, note, open, controls) {
  const summary = h("summary", {}, h("b", {}, name), h("span", { className: "state" }, `${note}`));
  return h("details", { open }, summary, ...controls);
}

function editor() {
  const rows = Math.min(18, current.body.split("\n").length + 1);
  const area = h("textarea", { value: current.body, rows, spellcheck: false, "aria-label": "Body" });
  area.setSelectionRange(0, 0);
  area.addEventListener("input", () => {
    current.body = area.value;
    refresh();
    show(current);
  });
  return area;
}

function set(name, value) {
  current.values.set(name, value);
  current.typed.add(name);
  if (current.section.dataset.path.includes(`{${name}}`)) current.filled = false;
  refresh();
  show(current);
}

function control(field) {
  const required = field.sample ? h("span", { className: "flag required" }, "required") : null;
  const label = h("span", {}, h("code", {}, field.name), required);
  if (field.operators.length) return range(field, label);
  const value = current.values.get(field.name) ?? "";
  const choices = field.kind === "boolean" ? ["true", "false"] : field.kind === "choice" ? field.choices : null;
  const hint = HINTS[field.kind] ?? HINTS[$(".type", field.row).textContent] ?? "";
  const input = choices
    ? h("select", {}, ...["", ...choices].map((each) => h("option", { value: each }, each || "any")))
    : h("input", { name: field.name, placeholder: field.choices.slice(0, 2).join(",") || hint, autocomplete: "off", spellcheck: false });
  input.value = value;
  input.title = $("dd", field.row).firstChild?.textContent ?? "";
  input.addEventListener("input", () => set(field.name, input.value));
  return h("label", { className: "field" }, label, input);
}

/* A range has two limits, each inclusive or exclusive. */
function range({ name, operators }, label) {
  const limit = (...signs) => {
    const known = signs.filter(([operator]) => !operator || operators.includes(operator));
    const names = known.map(([operator]) => (operator ? `${name}[${operator}]` : name));
    const given = Math.max(
      0,
      names.findIndex((each) => current.values.get(each)),
    );
    const options = known.map(([, sign], index) => h("option", { value: index }, sign));
    const sign = h("select", { "aria-label": `${name}: comparison` }, ...options);
    const input = h("input", { "aria-label": `${name}: value`, autocomplete: "off", spellcheck: false });
    [sign.value, input.value] = [given, current.values.get(names[given]) ?? ""];
    const store = () => names.forEach((each, index) => set(each, index === +sign.value ? input.value : ""));
    sign.addEventListener("input", store);
    input.addEventListener("input", store);
    return [sign, input];
  };
  const limits = [...limit(["gte", "≥"], ["gt", ">"], ["", "="]), ...limit(["lt", "<"], ["lte", "≤"])];
  return h("div", { className: "field range", role: "group", "aria-label": name }, label, h("span", {}, ...limits));
}

function refresh() {
  $(".connection .state", panel).textContent = connectionState();
  const notice = $(".other-origin", panel);
  const target = URL.canParse(base.value) ? new URL(base.value).origin : "";
  notice.hidden = target === location.origin;
  setBusy(!notice.hidden);
  notice.textContent = target
    ? `This page sends requests to ${location.origin} only. For ${target}, copy the request and send it yourself.`
    : "This is not a valid URL.";
  if (!current) return;
  views.mark(view);
  if (view === RESPONSE) output.replaceChildren(received ?? "No request sent yet.");
  else output.replaceChildren(colored(sampleOf(current, view)));
}

// Not `disabled`: a disabled button loses the focus.
const setBusy = (busy) => sendButton.setAttribute("aria-disabled", `${busy}`);

/* Asks before a request that deletes something, or changes what the console has chosen; the answer is whether to send it. */
async function confirmed({ method, url, body }) {
  const deletes = method === "DELETE" || /"op"\s*:\s*"delete"/.test(body ?? "");
  if (!deletes && (method === "GET" || !current.filled)) return true;
  const dialog = $("#confirm");
  $("#confirm-text").textContent = deletes
    ? "It deletes data of the store, which cannot be undone."
    : "It changes data of the store. The id is one that the console has filled in.";
  $(".send", dialog).textContent = deletes ? "Delete" : "Send";
  $(".send", dialog).classList.toggle("danger", deletes);
  $("code", dialog).textContent = `${method} ${url}`;
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue === "send";
}

async function getToken(event) {
  event.preventDefault();
  const status = $(".message", tokenForm);
  const { client_id, client_secret } = tokenForm.elements;
  const body = new URLSearchParams({ grant_type: "client_credentials" });
  for (const { name, value } of [client_id, client_secret]) body.set(name, value.trim());
  status.textContent = "Requesting a token…";
  try {
    const response = await fetch(document.body.dataset.tokenUrl, { method: "POST", body, credentials: "omit" });
    const given = await response.json();
    if (!response.ok) throw new Error(given.error_description ?? given.error ?? given.detail ?? response.status);
    client_secret.value = "";
    keepToken(given.access_token);
    useNoApp();
    status.textContent = `The token expires in ${Math.round(given.expires_in / 60)} minutes.`;
    fillIds();
  } catch (error) {
    status.textContent = error.message;
  }
}

async function send(event) {
  event.preventDefault();
  await filling;
  const { method, url, headers, body } = requestOf(current);
  if (sendButton.ariaDisabled === "true") return;
  if (/{\w+}/.test(url)) return void (message.textContent = "Fill in the path parameters first.");
  if (!(await confirmed({ method, url, body }))) return void (message.textContent = "Not sent.");
  setBusy(true);
  if (!(await getOwnToken())) return setBusy(false);
  if (memory.get("token")) headers.push(["Authorization", `Bearer ${memory.get("token")}`]);
  message.textContent = "Sending…";
  const started = performance.now();
  try {
    const signal = AbortSignal.timeout(30_000);
    const response = await fetch(url, { method, headers, body, signal, credentials: "omit", cache: "no-store" });
    const text = await response.text();
    const spent = Math.round(performance.now() - started);
    const size = new Blob([text]).size;
    const mark = h("b", { className: `status ${response.status < 400 ? "good" : "bad"}` }, `${response.status}`);
    const weight = size < 1000 ? `${size} B` : `${(size / 1000).toFixed(1)} kB`;
    message.replaceChildren(mark, ` ${response.statusText} · ${spent} ms · ${weight}`);
    received = shown(response, text);
    noteResult({ method, url }, response, text);
    if (response.status === 401 && app.value) keepToken("");
  } catch (error) {
    received = error.name === "TimeoutError" ? "No response within 30 seconds." : `The request failed: ${error.message}`;
    message.textContent = received;
  }
  view = RESPONSE;
  refresh();
  if (matchMedia("(max-width: 56rem)").matches) output.parentElement.scrollIntoView();
}

function shown(response, text) {
  const headers = [...response.headers].map(([name, value]) =>
    h("div", {}, h("span", { className: "k" }, `${name}: `), value),
  );
  let [laid, code] = [text || "No body.", null];
  try {
    if (text.length < LARGE) [laid, code] = [pretty(text), JSON.parse(text).code];
  } catch {
    // Not JSON: shown unchanged.
  }
  const meaning = { href: `/problems/${code}`, target: "_blank", rel: "noopener" };
  return h(
    "div",
    { className: "received" },
    h("details", {}, h("summary", {}, `${headers.length} headers`), ...headers),
    !response.ok && /^\w+$/.test(code ?? "") ? h("a", meaning, `What ${code} means`) : null,
    h("code", {}, text.length < LARGE ? colored(laid) : laid),
  );
}
