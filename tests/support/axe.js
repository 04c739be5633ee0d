// Runs axe, and measures the contrast of repeated elements three times instead of hundreds of times: of the tokens of a
// sample, or of the cells of a table. Elements are alike if they and all their ancestors have the same computed style.
async (options) => {
  const STYLE = ["color", "backgroundColor", "backgroundImage", "opacity", "filter", "mixBlendMode", "textShadow",
    "fontSize", "fontWeight", "position", "overflow", "clip", "clipPath", "transform", "visibility", "display"];
  for (const each of document.getAnimations()) if (each instanceof CSSTransition) each.finish();
  const measured = !options.runOnly || options.runOnly.includes("color-contrast");
  const kinds = new Map(), kindOf = new WeakMap(), count = new Map();
  for (const element of measured ? document.querySelectorAll("*") : []) {
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const onScreen = box.width > 1 && box.height > 1 && box.right > 0 && box.bottom + scrollY > 0;
    const look = [kindOf.get(element.parentElement), element.localName, onScreen, element.checkVisibility(),
      element.disabled, element.ariaDisabled, ...STYLE.map((name) => style[name])].join();
    if (!kinds.has(look)) kinds.set(look, kinds.size);
    const kind = kinds.get(look);
    kindOf.set(element, kind);
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (hasText) count.set(kind, (count.get(kind) ?? 0) + 1);
    element.toggleAttribute("data-repeated", hasText && count.get(kind) > 3);
  }
  axe.configure({ rules: [{ id: "color-contrast", selector: "*:not([data-repeated])" }] });
  // Only violations are described: a selector for each element that passes costs more than most rules.
  const { violations } = await axe.run({ resultTypes: ["violations"], ...options });
  return violations.map(({ id, nodes }) => `${id} ${JSON.stringify(nodes.slice(0, 3).map((node) => node.target))}`);
}
