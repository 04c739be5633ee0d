/* What is pleasanter with script, and works without: copying, and not sending a form twice. */
const said = document.createElement("p");
said.className = "hidden";
said.setAttribute("role", "status");
document.body.append(said);

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
  const words = button.querySelector("span");
  const before = words.textContent;
  button.dataset.done = "";
  words.textContent = "Copied";
  said.textContent = "Copied to the clipboard";
  setTimeout(() => {
    delete button.dataset.done;
    words.textContent = before;
    said.textContent = "";
  }, 1600);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (button) copy(button);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.getAttribute("aria-busy") === "true") event.preventDefault();
  else form.setAttribute("aria-busy", "true");
});

// On a phone the tab one is at may lie beyond the edge.
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// A page that comes back from the browser's memory can be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
});
