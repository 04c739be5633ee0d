/* The console of a reader who is signed in to the portal: one of their apps, a store, and a token that the portal issues. */
const [app, ownStore, manual] = [$("[name=app]", panel), $("[name=store]", panel), $(".manual", panel)];
const SOON = 10_000; // a token that expires within this many milliseconds is replaced
let mine = null;

/* Keeps a token for this tab; one that the portal issued also has a subject, the app and the store, and an end. */
function keepToken(value, subject = "", end = "") {
  memory.set("token", value);
  memory.set("token_for", subject);
  memory.set("token_end", end);
  token.value = value;
}

const chosen = () => mine?.apps.find(({ id }) => `${id}` === app.value);
const subject = () => `${app.value}/${ownStore.value}`;
const hasOwnToken = () => memory.get("token_for") === subject() && Date.now() < Number(memory.get("token_end")) - SOON;

/* Offers the apps and stores; the answer is whether there are any. */
async function offerApps() {
  mine = await portal();
  const offered = mine !== null && mine.apps.length > 0;
  $(".mine", panel).hidden = !offered;
  $(".guest", panel).hidden = mine !== null;
  if (!offered) return false;
  const options = mine.apps.map(({ id, name }) => h("option", { value: `${id}` }, name));
  app.replaceChildren(...options, h("option", { value: "" }, "None: enter a token below"));
  // The store that the reader chose before, in the app that was chosen before if it has this store.
  const handle = handleOf(baseUrl());
  const having = mine.apps.filter(({ stores }) => stores.some((each) => each.handle === handle));
  const known = having.find(({ id }) => `${id}` === memory.get("app")) ?? having[0];
  const free = !memory.get("base") && (!memory.get("token") || memory.get("token_for"));
  app.value = memory.get("token") && !memory.get("token_for") ? "" : `${known?.id ?? (free ? mine.apps[0].id : "")}`;
  useApp(handle);
  manual.open = !app.value;
  $(".connection", panel).open = !app.value;
  return app.value !== "";
}

function useApp(handle = "") {
  memory.set("app", app.value);
  const stores = chosen()?.stores ?? [];
  const optionOf = ({ handle, name }) => h("option", { value: handle }, `${name} (${handle})`);
  const group = (label, own) => {
    const members = stores.filter((each) => each.own === own).map(optionOf);
    return members.length ? h("optgroup", { label }, ...members) : null;
  };
  const groups = [group("Your stores", true), group("Other stores with this app", false)];
  ownStore.replaceChildren(...groups.filter((each) => each !== null));
  ownStore.disabled = !stores.length;
  if (stores.some((each) => each.handle === handle)) ownStore.value = handle;
  useOwnStore();
}

function useOwnStore() {
  if (app.value) {
    if (!hasOwnToken()) keepToken("");
    store.value = ownStore.value;
    useBase(baseOf(ownStore.value));
    base.value = baseUrl();
  }
  refresh();
}

/* The reader has set a URL or a token of their own. */
function useNoApp() {
  app.value = "";
  refresh();
}

function connectionState() {
  const found = chosen();
  const granted = found?.stores.find(({ handle }) => handle === ownStore.value)?.scopes ?? [];
  const needed = current ? $$(".scope code", current.section).map((each) => each.textContent) : [];
  const lacking = needed.filter((scope) => !granted.includes(scope) && !granted.includes(scope.replace(":read", ":write")));
  const notice = $(".missing-scope", panel);
  notice.hidden = !found || !lacking.length;
  notice.textContent = `${ownStore.value} does not grant ${found?.name} the scope ${lacking.join(", ")}.`;
  if (found) return `${found.name} on ${ownStore.value}`;
  return memory.get("token") ? "token set" : "no token";
}

/* Gets a token of the chosen app if there is no live one; the answer is whether the request can be sent. */
async function getOwnToken() {
  if (!app.value || hasOwnToken()) return true;
  message.textContent = "Requesting a token…";
  const body = new URLSearchParams({ _token: mine.form_token, store: ownStore.value });
  try {
    const response = await fetch(`/portal/apps/${app.value}/access-token`, { ...JSON_ONLY, method: "POST", body });
    const given = /json/.test(response.headers.get("Content-Type")) ? await response.json() : {};
    if (response.ok) {
      keepToken(given.access_token, subject(), `${Date.now() + given.expires_in * 1000}`);
      return true;
    }
    message.textContent = Object.values(given.faults ?? {})[0] ?? "Your session has ended. Reload the page and sign in again.";
  } catch (error) {
    message.textContent = `No token was issued: ${error.message}`;
  }
  return false;
}

app.addEventListener("input", () => {
  useApp(ownStore.value);
  fillIds();
});
ownStore.addEventListener("input", () => {
  useOwnStore();
  fillIds();
});
