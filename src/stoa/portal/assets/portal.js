/* Enhancements that pages do not depend on: copy buttons, and protection against double submits. */
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

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.getAttribute("aria-busy") === "true") event.preventDefault();
  else form.setAttribute("aria-busy", "true");
});

// On a phone, the current tab may be outside of the visible area.
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Forms of a page from the back/forward cache can be submitted again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
});
