/* The requests of a guide in other languages: tabs of one card. A choice applies to the whole page. */
const requests = $$(".tabbed").map((block) => {
  const [card, ...others] = block.children;
  const code = $("code", card);
  const texts = { HTTP: code.textContent };
  for (const other of others) {
    texts[other.firstElementChild.textContent] = here($("code", other).textContent);
    other.remove();
  }
  const list = tabs("Language", Object.keys(texts), chooseRequest);
  card.firstElementChild.replaceChildren(list);
  list.mark("HTTP");
  return { code, texts, list };
});

function chooseRequest(name) {
  for (const { code, texts, list } of requests) {
    list.mark(name);
    code.replaceChildren(colored(texts[name]));
  }
}
