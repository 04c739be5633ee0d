/* Enhancements that pages do not depend on: copy buttons, protection against double submits, and forms that keep their
   values when the theme changes or the session ends. */
const announcement = document.createElement("p");
announcement.className = "hidden";
announcement.setAttribute("role", "status");
document.body.append(announcement);

async function copy(button) {
  const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.dataset.copy));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  const label = button.querySelector("span");
  const original = label.textContent;
  button.dataset.done = "";
  label.textContent = "Copied";
  announcement.textContent = "Copied to clipboard";
  setTimeout(() => {
    delete button.dataset.done;
    label.textContent = original;
    announcement.textContent = "";
  }, 1600);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (button) copy(button);
});

// The theme changes in place, so that other forms of the page keep what was typed.
async function chooseTheme(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  const response = await fetch(form.action, { method: "POST", body: fields, redirect: "manual" }).catch(() => null);
  if (response?.type !== "opaqueredirect") {
    form.requestSubmit(button);
    return;
  }
  document.documentElement.dataset.theme = button.value;
  for (const each of document.querySelectorAll("button[name=theme]")) {
    each.setAttribute("aria-pressed", String(each.value === button.value));
  }
}

// A form is remembered in this tab until the next page. If the session has ended meanwhile, it is filled in again after the
// sign-in of the same person. Passwords and tokens are not remembered.
const REMEMBERED = "stoa-form";
const account = document.body.dataset.account;

function remember(form) {
  const kept = [...form.elements].filter((each) => each.name && !["password", "hidden", "submit"].includes(each.type));
  const values = kept.map((each) => [each.name, each.value, each.checked ?? null]);
  const path = location.pathname;
  sessionStorage.setItem(REMEMBERED, JSON.stringify({ account, path, action: form.getAttribute("action"), values }));
}

function restore() {
  const remembered = JSON.parse(sessionStorage.getItem(REMEMBERED) ?? "null");
  if (!remembered) return;
  if (!account) {
    // A page for guests: the sign-in. Only it says that the session has ended.
    if (new URLSearchParams(location.search).has("ended")) {
      sessionStorage.setItem(REMEMBERED, JSON.stringify({ ...remembered, ended: true }));
    }
    return;
  }
  sessionStorage.removeItem(REMEMBERED);
  if (!remembered.ended || remembered.account !== account) return;
  const form = [...document.forms].find((each) => each.getAttribute("action") === remembered.action);
  if (!form) return;
  for (const [name, value, checked] of remembered.values) {
    for (const field of form.elements) {
      if (field.name !== name) continue;
      if (field.type !== "checkbox" && field.type !== "radio") field.value = value;
      else if (field.value === value) field.checked = checked;
    }
  }
  const note = document.createElement("p");
  note.className = "notice warn";
  note.setAttribute("role", "status");
  note.textContent = "Your entries were kept. Check them, and submit the form again.";
  form.prepend(note);
  form.scrollIntoView({ block: "center" });
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.submitter?.name === "theme" && !form.dataset.plain) {
    event.preventDefault();
    form.dataset.plain = ""; // if the request fails, the form is submitted as without script
    chooseTheme(form, event.submitter).then(() => delete form.dataset.plain);
    return;
  }
  if (form.getAttribute("aria-busy") === "true") {
    event.preventDefault();
    return;
  }
  form.setAttribute("aria-busy", "true");
  // A download does not leave the page, so its button must work again.
  if (form.classList.contains("download")) setTimeout(() => form.removeAttribute("aria-busy"), 1500);
  if (form.method === "post" && account) remember(form);
});
restore();

// Times of pages that belong to no store are shown in the visitor's time zone.
for (const time of document.querySelectorAll("time[data-visitor]")) {
  const when = new Date(time.dateTime);
  const digits = "precise" in time.dataset ? { fractionalSecondDigits: 3 } : {};
  const written = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" }).format(when);
  const day = written.replace("Sept", "Sep"); // as the server writes it
  const clock = new Intl.DateTimeFormat("en-GB", {
    hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short", ...digits,
  }).format(when);
  if (time.textContent === time.title) time.textContent = `${day}, ${clock}`;
  else time.title = `${day}, ${clock}`;
}

// On a phone, the current tab may be outside of the visible area.
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Forms of a page from the back/forward cache can be submitted again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
});

// One box selects all rows of its form, and the bar says how many are selected.
for (const box of document.querySelectorAll("input[data-selects]")) {
  const rows = [...box.form.querySelectorAll(`input[name=${box.dataset.selects}]`)];
  const label = box.form.querySelector(`[data-count=${box.dataset.selects}]`);
  const idle = label.textContent;
  const show = () => {
    const count = rows.filter((each) => each.checked).length;
    box.checked = count === rows.length;
    box.indeterminate = count > 0 && count < rows.length;
    label.textContent = count ? `${count} selected:` : idle;
  };
  box.addEventListener("change", () => {
    for (const each of rows) each.checked = box.checked;
  });
  box.form.addEventListener("change", show);
  addEventListener("pageshow", show);
  show();
}

for (const button of document.querySelectorAll("button[data-print]")) button.addEventListener("click", () => print());
