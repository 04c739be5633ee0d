// Runs axe, and measures the contrast of repeated elements three times instead of hundreds of times: of the tokens of a
// sample, of the cells of a table, or of a menu that each page has. Elements are alike if they and all their ancestors have the
// same computed style. `known` contains the kinds that other pages have passed with; returns those of this page too.
async ([options, known]) => {
  const STYLE = ["color", "backgroundColor", "backgroundImage", "opacity", "filter", "mixBlendMode", "textShadow",
    "fontSize", "fontWeight", "position", "overflow", "clip", "clipPath", "transform", "visibility", "display"];
  for (const each of document.getAnimations()) if (each instanceof CSSTransition) each.finish();
  const measured = !options.runOnly || options.runOnly.includes("color-contrast");
  const passed = new Set(known.split(" ")), kindOf = new WeakMap(), count = new Map();
  const digest = (text) => {  // cyrb53
    let a = 0xdeadbeef, b = 0x41c6ce57;
    for (let n = 0; n < text.length; n++) {
      const code = text.charCodeAt(n);
      a = Math.imul(a ^ code, 2654435761);
      b = Math.imul(b ^ code, 1597334677);
    }
    a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
    b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
    return (4294967296 * (2097151 & b) + (a >>> 0)).toString(36);
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
