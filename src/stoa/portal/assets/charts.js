/* The values below the pointer, read from the table beside the pictures; without script the table tells them. */
const LEFT = 48, RIGHT = 432, WIDTH = 440;

for (const figure of document.querySelectorAll("[data-chart]")) {
  const table = document.getElementById(figure.dataset.chart);
  const picture = figure.querySelector("svg");
  const cursor = figure.querySelector(".cursor");
  const days = Number(figure.dataset.days);
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.column);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  figure.append(tip);

  function leave() {
    tip.hidden = true;
    figure.removeAttribute("data-at");
  }

  function show(event) {
    const frame = picture.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const slot = (RIGHT - LEFT) / days;
    const place = Math.min(days - 1, Math.max(0, Math.floor((x - LEFT) / slot)));
    const row = table.tBodies[0].rows[place];
    if (!row) return;
    const lines = [Object.assign(document.createElement("b"), { textContent: row.cells[0].textContent })];
    for (const item of figure.querySelectorAll(".legend li")) {
      const line = document.createElement("span");
      line.className = item.className;
      const value = row.cells[heads.indexOf(item.dataset.column)].textContent;
      line.append(item.textContent, Object.assign(document.createElement("i"), { textContent: value }));
      lines.push(line);
    }
    tip.replaceChildren(...lines);
    tip.hidden = false;
    const middle = LEFT + slot * (place + 0.5);
    cursor.setAttribute("transform", `translate(${middle} 0)`);
    figure.dataset.at = row.cells[0].textContent;
    const around = figure.getBoundingClientRect();
    const at = (middle / WIDTH) * frame.width;
    const beside = at + tip.offsetWidth + 14 > frame.width ? at - tip.offsetWidth - 10 : at + 10;
    tip.style.left = `${frame.left - around.left + Math.max(0, beside)}px`;
    tip.style.top = `${frame.top - around.top + 8}px`;
  }

  picture.addEventListener("pointermove", show);
  picture.addEventListener("pointerdown", show);
  picture.addEventListener("pointerleave", leave);
}
