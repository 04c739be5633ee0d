/* The amount of a refund or an order while it is entered: the server computes it by the rule of the refund or order itself. */
const shown = document.querySelector("input[name=shown_amount]");
const form = shown.form;
const [total, button] = [form.querySelector(".total"), form.querySelector("button.main")];
const { currency, idle, says } = total.dataset;
const QUIET = ["reason", "note", "q", "customer_q"]; // fields that do not change the amount
let timer = 0;
let asked = 0;

function show(amount, text) {
  shown.value = amount;
  button.textContent = amount ? `${button.dataset.verb} ${amount} ${currency}` : button.dataset.idle;
  total.textContent = amount ? says.replace("{}", `${amount} ${currency}`) : text;
}

async function ask() {
  const number = ++asked;
  const body = new URLSearchParams(new FormData(form));
  body.delete("shown_amount");
  try {
    const headers = { accept: "application/json" };
    const response = await fetch(form.action, { method: "POST", body, headers, redirect: "manual" });
    const answer = /json/.test(response.headers.get("content-type")) ? await response.json() : {};
    if (number !== asked) return; // the entries have changed meanwhile
    show(answer.amount ?? "", Object.values(answer.faults ?? {})[0] ?? idle);
  } catch {
    // Without an answer, the button shows the amount on a page of its own.
  }
}

// Until the amount of the new entries is known, the button does nothing else than show it.
form.addEventListener("input", (event) => {
  if (QUIET.includes(event.target.name)) return;
  asked++;
  show("", "Computing the amount…");
  clearTimeout(timer);
  timer = setTimeout(ask, 300);
});
