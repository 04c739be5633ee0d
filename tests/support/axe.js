// Runs axe, and measures the contrast of repeated elements three times instead of hundreds of times: of the tokens of a
// sample, of the cells of a table, or of a menu that each page has. Elements are alike if they and all their ancestors have the
// same computed style. `known` contains the kinds that other pages have passed with; returns those of this page too.
async ([options, known]) => {
  const STYLE = ["color", "backgroundColor", "backgroundImage", "opacity", "filter", "mixBlendMode", "textShadow",
    "fontSize", "fontWeight", "position", "overflow", "clip", "clipPath", "transform", "visibility", "display"];
  // A row that has just arrived fades, and another theme is not what it fades from.
  for (const each of document.getAnimations()) if (each.effect.getComputedTiming().endTime < Infinity) each.finish();
  const measured = !options.runOnly || options.runOnly.includes("color-contrast");
  const passed = new Set(known.split(" ")), kindOf = new WeakMap(), count = new Map();
  const digest = (text) => {  // FNV-1a, and a sum by powers of 33: two elements must agree in both
    let fnv = 2166136261, sum = 5381;
    for (let n = 0; n < text.length; n++) {
      const code = text.charCodeAt(n);
      fnv = Math.imul(fnv ^ code, 16777619);
      sum = (Math.imul(sum, 33) + code) | 0;
    }
    return `${(fnv >>> 0).toString(36)}.${(sum >>> 0).toString(36)}`;
  };
  for (const element of measured ? document.querySelectorAll("*") : []) {
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const onScreen = box.width > 1 && box.height > 1 && box.right > 0 && box.bottom + scrollY > 0;
    const kind = digest([kindOf.get(element.parentElement), element.localName, onScreen, element.checkVisibility(),
      element.disabled, element.ariaDisabled, ...STYLE.map((name) => style[name])].join());
    kindOf.set(element, kind);
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (hasText) count.set(kind, (count.get(kind) ?? 0) + 1);
    element.toggleAttribute("data-repeated", hasText && (count.get(kind) > 3 || passed.has(kind)));
  }
  axe.configure({ rules: [{ id: "color-contrast", selector: "*:not([data-repeated])" }] });
  // Only violations are described: a selector for each element that passes costs more than most rules.
  const { violations } = await axe.run({ resultTypes: ["violations"], ...options });
  const described = violations.map(
    ({ id, nodes }) => `${id} ${JSON.stringify(nodes.slice(0, 3).map((node) => node.target))}`);
  return [described, [...count.keys()].join(" ")];
}
