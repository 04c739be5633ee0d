/* The live tail: adds new deliveries at the top and updates their status. */
const table = document.querySelector("[data-tail]");
const live = document.querySelector("[data-live]");
const button = document.querySelector("[data-pause]");
const empty = document.querySelector("[data-empty]");
const MAX_ROWS = Number(table.dataset.rows ?? 100);
const TONES = { succeeded: "good", failed: "bad", retrying: "warn", pending: "sea" };
let source = null;
let loaded = false;

function element(name, properties = {}, ...children) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}

function cell(label, ...children) {
  const created = element("td", {}, ...children);
  if (label) created.dataset.label = label;
  return created;
}

function clock(at) {
  const when = new Date(at);
  const title = when.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long" });
  return element("time", { dateTime: at, title, textContent: when.toISOString().slice(11, 23) });
}

function row(entry) {
  const status = entry.status[0].toUpperCase() + entry.status.slice(1);
  const duration = entry.duration_ms === null ? "" : ` in ${entry.duration_ms} ms`;
  const result = entry.response_status ?? (entry.error ?? "–").replaceAll("_", " ");
  const response = [entry.attempts ? `${result}${duration}` : "–"];
  if (entry.verified) response.push(" ", element("span", { className: "badge good", textContent: "Signature verified" }));
  return element(
    "tr",
    { id: `t-${entry.id}` },
    cell("", element("a", { href: entry.url, textContent: entry.event }), element("small", { textContent: entry.resource })),
    cell("Status", element("span", { className: `badge ${TONES[entry.status] ?? ""}`, textContent: status })),
    cell("Response", ...response),
    cell("Store", entry.store),
    cell("Subscription", element("span", { className: "clip", textContent: entry.webhook })),
    cell("Time (UTC)", clock(entry.at)),
  );
}

function words(row) {
  return [...row.cells].map((each) => each.textContent.trim()).join("\n");
}

function show(event) {
  const entry = JSON.parse(event.data);
  const body = table.tBodies[0];
  const existing = document.getElementById(`t-${entry.id}`);
  const updated = row(entry);
  if (existing) {
    if (words(existing) !== words(updated)) updated.className = "updated";
    existing.replaceWith(updated);
  } else {
    if (loaded) updated.className = "new";
    body.prepend(updated);
    while (body.rows.length > MAX_ROWS) body.rows[body.rows.length - 1].remove();
  }
  empty.hidden = true;
}

function setStatus(label, state) {
  live.textContent = label;
  live.dataset.state = state;
}

function connect() {
  source = new EventSource(table.dataset.tail);
  source.onopen = () => {
    setStatus("Live", "on");
    setTimeout(() => (loaded = true), 1500);
  };
  source.onmessage = show;
  source.addEventListener("over", () => {
    source.close();
    setStatus("Disconnected. Reload the page.", "off");
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) setStatus("Disconnected: you have signed out, or too many tails are open", "off");
    else setStatus("Reconnecting", "wait");
  };
}

function disconnect() {
  source?.close();
  source = null;
}

button.addEventListener("click", () => {
  if (source) {
    disconnect();
    button.textContent = "Resume";
    setStatus("Paused", "off");
  } else {
    button.textContent = "Pause";
    setStatus("Connecting", "wait");
    connect();
  }
});
addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => {
  if (event.persisted && button.textContent === "Pause") connect();
});
connect();
