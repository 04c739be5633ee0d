/* Shared by all scripts: elements, session storage, syntax colors, JSON formatting, and the values of samples. */
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

function h(name, given = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Lasts as long as the tab, and is empty where the browser forbids storage.
const memory = {
  get(key) {
    try {
      return sessionStorage.getItem(`stoa.${key}`) ?? "";
    } catch {
      return "";
    }
  },
  set(key, value) {
    try {
      sessionStorage.setItem(`stoa.${key}`, value);
    } catch {
      // Without storage the value is not kept.
    }
  },
};

const TOKENS = new RegExp(
  [
    /("(?:[^"\\\n]|\\.)*")(?=(\s*:)?)/, // text, or a key when a colon follows
    /('(?:[^'\\\n]|\\.)*')/,
    /(?<![\w.$-])(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])/,
    /\b(?:curl|echo|import|from|for|const|new|await|print|true|false|null|True|False|None)\b/,
  ]
    .map((part) => part.source)
    .join("|"),
  "g",
);

function colored(text) {
  const fragment = document.createDocumentFragment();
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    const [token, double, colon, single, number] = found;
    const look = double && colon ? "k" : double || single ? "t" : number ? "n" : "w";
    fragment.append(text.slice(end, found.index), h("span", { className: look }, token));
    end = found.index + token.length;
  }
  fragment.append(text.slice(end));
  return fragment;
}

function pretty(text) {
  JSON.parse(text);
  // Formats the text itself: an id above 2^53 must not pass through a double.
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g);
  let at = 0;
  const read = () => {
    const opening = tokens[at++];
    if (opening !== "{" && opening !== "[") return opening;
    const closing = opening === "{" ? "}" : "]";
    const items = [];
    while (tokens[at] !== closing) {
      if (tokens[at] === ",") at++;
      let key = "";
      if (opening === "{") {
        key = `${tokens[at]}: `;
        at += 2;
      }
      items.push([key, read()]);
    }
    at++;
    return { opening, closing, items };
  };
  const flat = (node) =>
    node.items ? node.opening + node.items.map(([key, value]) => key + flat(value)).join(", ") + node.closing : node;
  const laid = (node, indent) => {
    const line = flat(node);
    if (!node.items?.length || (indent && indent.length + line.length <= 58)) return line;
    const deeper = `${indent}  `;
    const rows = node.items.map(([key, value]) => deeper + key + laid(value, deeper));
    return `${node.opening}\n${rows.join(",\n")}\n${indent}${node.closing}`;
  };
  return laid(read(), "");
}

const string = (text) => JSON.stringify(text);
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const inPhp = (text) => `'${text.replace(/[\\']/g, "\\$&")}'`;
const inShell = (text) => (/["$`\\!]/.test(text) ? quoted(text) : `"${text}"`);

const WORDS = { true: "True", false: "False", null: "None" };
const inPython = (json) =>
  json
    .replace(/"(?:[^"\\]|\\.)*"|\b(true|false|null)\b/g, (token, word) => WORDS[word] ?? token)
    .replace(/^ +/gm, (indent) => indent + indent);
const HEADER_ARGUMENTS = { "If-Match": "if_match", "If-None-Match": "if_none_match", "Idempotency-Key": "idempotency_key" };

/* A query value as JSON. */
function valueOf(text, kind) {
  const items = text.split(",").map((each) => each.trim());
  const pairs = items.map((pair) => pair.split("="));
  if (/^integers?$/.test(kind) && items.every((each) => /^-?\d+$/.test(each))) {
    return items.length > 1 ? `[${items.join(", ")}]` : items[0];
  }
  if (kind === "boolean" && text in WORDS) return text;
  if (kind === "array" && items.length > 1) return `[${items.map(string).join(", ")}]`;
  if (kind !== "object") return string(text);
  return `{${pairs.map(([key, ...value]) => `${string(key.trim())}: ${string(value.join("=").trim())}`).join(", ")}}`;
}

/* The headers that the SDKs take as arguments, with their values. */
function headerArguments(headers) {
  return headers.flatMap(([name, value]) => {
    const wait = name === "Prefer" && /wait=(\d+)/.exec(value);
    return wait ? [["wait_s", wait[1]]] : HEADER_ARGUMENTS[name] ? [[HEADER_ARGUMENTS[name], string(value)]] : [];
  });
}

const pathArguments = (path) => path.map((value) => (/^\d+$/.test(value) ? value : string(value)));
const isUpload = (body, media) => body !== null && !/[/+]json$/.test(media);
const uploadName = (media) => `rows.${media === "text/csv" ? "csv" : "ndjson"}`;

/* The members of a body as text, so that no number passes through a double. */
function members(body) {
  const [top] = [JSON.parse(body)];
  const laid = pretty(body).split("\n");
  const found = [];
  for (const line of laid.slice(1, -1)) {
    if (/^ {2}"/.test(line)) found.push(line.slice(2));
    else found[found.length - 1] += `\n${line.slice(2)}`;
  }
  return Array.isArray(top) || top === null ? null : found.map((each) => each.replace(/,$/, ""));
}

function pythonArguments({ path, query, headers, body, media, spreads }) {
  const given = pathArguments(path);
  if (isUpload(body, media)) given.push(`Path("${uploadName(media)}")`);
  else if (body !== null) {
    let parts = null;
    try {
      parts = spreads ? members(body) : [body];
    } catch {
      // Incomplete JSON is shown as it is.
    }
    for (const part of parts ?? [body]) {
      const named = spreads && parts && /^"(\w+)": ([^]*)$/.exec(part);
      given.push(named ? `${named[1]}=${inPython(named[2])}` : inPython(part));
    }
  }
  for (const [name, value, kind] of query) {
    given.push(`${name.replace(/\[(\w+)\]$/, "_$1")}=${inPython(valueOf(value, kind))}`);
  }
  for (const [name, value] of headerArguments(headers)) given.push(`${name}=${value}`);
  const flat = given.join(", ");
  const laid = given.map((each) => `\n    ${each.replaceAll("\n", "\n    ")},`).join("");
  return `(${flat.length <= 50 && !flat.includes("\n") ? flat : `${laid}\n`})`;
}

/* An object literal: keys that are identifiers need no quotes, and one line has spaces inside its braces. */
const inTypeScript = (json) =>
  json.replace(/"((?:[^"\\]|\\.)*)"(:?)|\{(?=[^\n}])|(?<=[^\n{ ])\}/g, (token, key, colon) => {
    if (key === undefined) return token === "{" ? "{ " : " }";
    return colon && /^[A-Za-z_]\w*$/.test(key) ? `${key}:` : token;
  });
const camel = (name) => name.replace(/[_-](\w)/g, (_, letter) => letter.toUpperCase());

function typeScriptArguments({ path, query, headers, body, media }) {
  const given = pathArguments(path);
  if (isUpload(body, media)) given.push(`await openAsBlob("${uploadName(media)}", { type: "${media}" })`);
  else if (body !== null) given.push(inTypeScript(body));
  const options = new Map();
  for (const [name, value, kind] of query) {
    const [, range, operator] = /^(.+)\[(\w+)\]$/.exec(name) ?? [];
    const text = inTypeScript(valueOf(value, kind));
    const known = options.get(range);
    if (!range) options.set(name, text);
    else if (!known) options.set(range, `{ ${operator}: ${text} }`);
    else if (known.endsWith(" }")) options.set(range, known.replace(/ }$/, `, ${operator}: ${text} }`));
  }
  for (const [name, value] of headerArguments(headers)) options.set(camel(name), value);
  if (options.size) given.push(`{ ${[...options].map(([name, value]) => `${name}: ${value}`).join(", ")} }`);
  return `(${given.join(", ")})`;
}

/* The parts of a sample that depend on the values of a request, by language and in their order. Everything else is generated
   with the SDKs. */
const VALUES = {
  curl({ method, url, headers, body }) {
    const verb = method === (body === null ? "GET" : "POST") ? "" : `-X ${method} `;
    const given = headers.map(([name, value]) => `-H ${inShell(`${name}: ${value}`)}`);
    if (body !== null) given.push(`--data ${quoted(body)}`);
    return [`curl ${verb}${inShell(url)}`, ['$STOA_TOKEN"', ...given].join(" \\\n  ")];
  },

  Python: (request) => [`Client(${string(request.base)}`, pythonArguments(request)],

  TypeScript: (request) => [`Client(${string(request.base)}`, typeScriptArguments(request)],

  PHP({ url, headers, body }) {
    const given = headers.map(([name, value]) => `        ${inPhp(`${name}: ${value}`)},\n`);
    return [
      body === null ? "<?php\n" : `<?php\n$body = <<<'BODY'\n${body}\nBODY;\n`,
      `curl_init(${inPhp(url)})`,
      `getenv('STOA_TOKEN'),\n${given.join("")}    ],\n${body === null ? "" : "    CURLOPT_POSTFIELDS => $body,\n"}]`,
    ];
  },
};

/* A generated sample with the values of a request in place of those that the document declares. */
function withValues(language, source, declared, request) {
  // The sample shows whether the method of the Python SDK takes the members of a body as arguments.
  const spreads = source.includes(pythonArguments({ ...declared, spreads: true }));
  const [before, after] = [declared, request].map((each) => VALUES[language]({ ...each, spreads }));
  let [done, rest] = ["", source];
  for (const [index, text] of before.entries()) {
    const at = rest.indexOf(text);
    if (at < 0) return source;
    done += rest.slice(0, at) + after[index];
    rest = rest.slice(at + text.length);
  }
  return done + rest;
}
