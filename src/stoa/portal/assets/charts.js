/* Tooltips for charts: the values under the pointer, read from the table below the charts. */
const LEFT = 48, RIGHT = 432, WIDTH = 440;

for (const figure of document.querySelectorAll("[data-chart]")) {
  const table = document.getElementById(figure.dataset.chart);
  const svg = figure.querySelector("svg");
  const cursor = figure.querySelector(".cursor");
  const days = Number(figure.dataset.days);
  const columns = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.column);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  figure.append(tip);

  function hide() {
    tip.hidden = true;
    figure.removeAttribute("data-at");
  }

  function show(event) {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const slot = (RIGHT - LEFT) / days;
    const index = Math.min(days - 1, Math.max(0, Math.floor((x - LEFT) / slot)));
    const row = table.tBodies[0].rows[index];
    if (!row) return;
    const lines = [Object.assign(document.createElement("b"), { textContent: row.cells[0].textContent })];
    for (const item of figure.querySelectorAll(".legend li")) {
      const line = document.createElement("span");
      line.className = item.className;
      const value = row.cells[columns.indexOf(item.dataset.column)].textContent;
      line.append(item.textContent, Object.assign(document.createElement("i"), { textContent: value }));
      lines.push(line);
    }
    tip.replaceChildren(...lines);
    tip.hidden = false;
    const middle = LEFT + slot * (index + 0.5);
    cursor.setAttribute("transform", `translate(${middle} 0)`);
    figure.dataset.at = row.cells[0].textContent;
    const outer = figure.getBoundingClientRect();
    const xInPixels = (middle / WIDTH) * box.width;
    const left = xInPixels + tip.offsetWidth + 14 > box.width ? xInPixels - tip.offsetWidth - 10 : xInPixels + 10;
    tip.style.left = `${box.left - outer.left + Math.max(0, left)}px`;
    tip.style.top = `${box.top - outer.top + 8}px`;
  }

  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}
