/* Updates the page of a running import, and lets reports be downloaded more than once. */
const INTERVAL_MS = 1500;

async function update() {
  const job = document.getElementById("job");
  if (!job?.hasAttribute("data-running")) return;
  if (!document.hidden) {
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html", "x-unattended": "1" } });
      if (response.redirected) return location.reload(); // the session has ended
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const updated = page.getElementById("job");
      // Do not replace a focused button while the import is running.
      if (updated && !(job.contains(document.activeElement) && updated.hasAttribute("data-running"))) {
        job.replaceWith(updated);
        document.title = page.title;
      }
    } catch {
      // The service is unreachable: keep the current content until the next update.
    }
  }
  setTimeout(update, INTERVAL_MS);
}
setTimeout(update, INTERVAL_MS);

// A download does not leave the page, so its button must stay enabled.
document.addEventListener("submit", (event) => {
  setTimeout(() => event.target.removeAttribute("aria-busy"), INTERVAL_MS);
});
