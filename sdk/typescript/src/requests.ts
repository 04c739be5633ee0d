/** Requests: query string and headers. */
import { etagOf } from "./answers.js";
import type { AnyOptions, Version } from "./options.js";

export const PREFIX = "/api/v3/app";
export const JSON_TYPE = "application/json";

/** The JSON of a value. A number or a time that JSON cannot express is refused: `JSON.stringify` writes null, which clears a field. */
export function json(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, name: string, written: unknown): unknown {
    const given = this[name];
    if ((typeof given === "number" && !Number.isFinite(given)) || (given instanceof Date && Number.isNaN(given.getTime()))) {
      throw new TypeError(`${name} is ${String(given)}; pass null to clear the field, or leave it out`);
    }
    return written;
  });
}

/** The query string; an object becomes `name[key]=value`, also inside another one, and a list is joined with commas. */
export function queryString(query: Readonly<Record<string, unknown>>): string {
  const pairs: string[] = [];
  const add = (name: string, value: unknown): void => {
    if (isMembers(value)) {
      for (const [key, each] of Object.entries(value)) add(`${name}[${key}]`, each);
    } else if (value !== undefined && value !== null) {
      pairs.push(`${encodeURIComponent(name).replace(/%5B|%5D/g, decodeURIComponent)}=${encodeURIComponent(text(value))}`);
    }
  };
  for (const [name, value] of Object.entries(query)) add(name, value);
  return pairs.length ? `?${pairs.join("&")}` : "";
}

function isMembers(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

function text(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(text).join(",");
  if (["string", "number", "boolean", "bigint"].includes(typeof value)) return String(value);
  throw new TypeError(`a ${typeof value} is not allowed in a query`);
}

/** The URL of a store or of a token endpoint, without slashes at its end. */
export function address(name: string, given: string): string {
  const trimmed = given.trim().replace(/\/+$/, "");
  if (!/^https?:\/\/[^/\s]/i.test(trimmed) || !URL.canParse(trimmed)) {
    throw new TypeError(
      `${name} must start with https:// or http://, such as https://shop.example.com, but is ${JSON.stringify(given)}`,
    );
  }
  return trimmed;
}

/** A path under the prefix of the API, also if it was given without its first slash. */
export function pathOf(given: string): string {
  return given.startsWith("/") ? given : `/${given}`;
}

/** An id as one segment of a path. It may come from outside, and must not lead to another resource, such as `../orders/7`. */
export function segment(value: number | string): string {
  const text = String(value);
  if (["", ".", ".."].includes(text)) throw new TypeError(`${JSON.stringify(text)} is not an id`);
  return encodeURIComponent(text);
}

/** The headers of a call. Every write gets an idempotency key, so that retries are safe. */
export function headersFor(method: string, options: AnyOptions, accept = JSON_TYPE): Record<string, string> {
  const headers: Record<string, string> = { accept };
  if (method !== "GET") headers["idempotency-key"] = checked(options.idempotencyKey ?? crypto.randomUUID());
  if (options.ifMatch !== undefined) headers["if-match"] = entityTag(options.ifMatch);
  if (options.ifNoneMatch !== undefined) headers["if-none-match"] = entityTag(options.ifNoneMatch);
  if (options.waitS) headers["prefer"] = `wait=${Math.round(options.waitS)}`;
  return headers;
}

/** The idempotency key, if a header can carry it and the service accepts it. */
function checked(key: string): string {
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new TypeError("an idempotency key must consist of 1 to 255 visible ASCII characters, without spaces");
  }
  return key;
}

/**
 * The ETag of a version, an ETag, or a resource.
 *
 * A resource that came in a response of its own has its ETag, which also covers metadata that only this app sees.
 */
function entityTag(given: Version): string {
  const version = typeof given === "object" ? (etagOf(given) ?? given.version) : given;
  if (typeof version === "number") return `"${version}"`;
  if (typeof version === "string") return version;
  throw new TypeError("pass a version, an ETag or a resource that has a version");
}
