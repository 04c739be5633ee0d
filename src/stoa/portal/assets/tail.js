/* Follows an app's deliveries: rows come in at the top, and move on as their status does. */
const table = document.querySelector("[data-tail]");
const live = document.querySelector("[data-live]");
const button = document.querySelector("[data-pause]");
const quiet = document.querySelector("[data-quiet]");
const MOST = 100;
const TONES = { succeeded: "good", failed: "bad", retrying: "warn", pending: "sea" };
let source = null;
let begun = false;

function made(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function cell(label, ...children) {
  const element = made("td", {}, ...children);
  if (label) element.dataset.label = label;
  return element;
}

function row(told) {
  const words = told.status[0].toUpperCase() + told.status.slice(1);
  const took = told.duration_ms === null ? "" : ` in ${told.duration_ms} ms`;
  const answer = told.attempts ? `${told.response_status ?? (told.error ?? "–").replaceAll("_", " ")}${took}` : "–";
  return made(
    "tr",
    { id: `t-${told.id}` },
    cell("", made("a", { href: told.address, textContent: told.event }), made("small", { textContent: told.resource })),
    cell("Status", made("span", { className: `badge ${TONES[told.status] ?? ""}`, textContent: words })),
    cell("Answer", answer),
    cell("Store", told.store),
    cell("Subscription", made("span", { className: "clip", textContent: told.webhook })),
    cell("At (UTC)", told.at.slice(11, 19)),
  );
}

function show(event) {
  const told = JSON.parse(event.data);
  const body = table.tBodies[0];
  const before = document.getElementById(`t-${told.id}`);
  const fresh = row(told);
  if (before) {
    if (before.textContent !== fresh.textContent) fresh.className = "moved";
    before.replaceWith(fresh);
  } else {
    if (begun) fresh.className = "fresh";
    body.prepend(fresh);
    while (body.rows.length > MOST) body.rows[body.rows.length - 1].remove();
  }
  quiet.hidden = true;
}

function say(words, state) {
  live.textContent = words;
  live.dataset.state = state;
}

function follow() {
  source = new EventSource(table.dataset.tail);
  source.onopen = () => {
    say("Live", "on");
    setTimeout(() => (begun = true), 1500);
  };
  source.onmessage = show;
  source.addEventListener("over", () => {
    source.close();
    say("Ended: reload the page", "off");
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) say("Too many tails are open, or you were signed out", "off");
    else say("Reconnecting", "wait");
  };
}

function rest() {
  source?.close();
  source = null;
}

button.addEventListener("click", () => {
  if (source) {
    rest();
    button.textContent = "Go on";
    say("Paused", "off");
  } else {
    button.textContent = "Pause";
    say("Connecting", "wait");
    follow();
  }
});
addEventListener("pagehide", rest);
addEventListener("pageshow", (event) => {
  if (event.persisted && button.textContent === "Pause") follow();
});
follow();
