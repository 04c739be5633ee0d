/* The buttons beside a number of units, and the units in all on the button of the form. */
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-step]");
  if (!button) return;
  const field = button.parentElement.querySelector("input");
  const most = field.max === "" ? Infinity : Number(field.max);
  field.value = Math.max(0, Math.min(most, (Number.parseInt(field.value, 10) || 0) + Number(button.dataset.step)));
  field.dispatchEvent(new Event("input", { bubbles: true }));
});

for (const button of document.querySelectorAll("button[data-units]")) {
  const idle = button.textContent;
  const show = () => {
    const fields = [...button.form.querySelectorAll(".stepper input")];
    const units = fields.reduce((sum, each) => sum + (Number.parseInt(each.value, 10) || 0), 0);
    button.textContent = units > 0 ? `${button.dataset.units} ${units} ${units === 1 ? "unit" : "units"}` : idle;
  };
  button.form.addEventListener("input", show);
  addEventListener("pageshow", show);
  show();
}
