/* An import that is not finished keeps its page up to date; a file can be taken home more than once. */
const EVERY_MS = 1500;

async function look() {
  const job = document.getElementById("job");
  if (!job?.hasAttribute("data-running")) return;
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html", "x-unattended": "1" } });
      if (answer.redirected) return location.reload(); // signed out meanwhile
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const now = page.getElementById("job");
      // Whoever stands on a button of it with the keyboard is not pushed off, until the job has ended.
      if (now && !(job.contains(document.activeElement) && now.hasAttribute("data-running"))) {
        job.replaceWith(now);
        document.title = page.title;
      }
    } catch {
      // The service is away for a moment: what is shown stays, and the next look tells.
    }
  }
  setTimeout(look, EVERY_MS);
}
setTimeout(look, EVERY_MS);

// A download leaves the page where it is, so its button must work again.
document.addEventListener("submit", (event) => {
  setTimeout(() => event.target.removeAttribute("aria-busy"), EVERY_MS);
});
