/** Verifies webhook signatures and timestamps (Standard Webhooks), and signs deliveries for tests of a receiver. */
import { SignatureRefused } from "./errors.js";
import type { EventData } from "./generated/events.js";
import type * as models from "./generated/models.js";

/** The types of events; later releases may add some, so keep a default branch. */
export type EventType = keyof EventData;

/**
 * An event. Retries and redeliveries have the same `id`: use it to ignore repeats.
 *
 * `type` tells the type of `data`, which is missing if the subscription has `payload: "thin"`.
 */
export type Event<T extends EventType = EventType> = {
  [K in T]: Omit<models.Event, "data" | "type"> & { type: K; data?: EventData[K] };
}[T];

export interface VerifyOptions {
  /** How far the timestamp may be from the current time, in seconds; 300 by default. */
  toleranceS?: number | undefined;
  /** The current time, in seconds since 1970; by default that of the clock. */
  now?: number | undefined;
}

/** `Headers` of any realm or library, or a plain object. */
type HeaderSource = HeaderReader | Readonly<Record<string, string | readonly string[] | undefined>>;
interface HeaderReader {
  get(name: string): string | null | undefined;
}

export const TOLERANCE_S = 300;

/**
 * The event in a message; throws `SignatureRefused`.
 *
 * Pass the raw body as it arrived, the headers, and the secret of the subscription; during a rotation, pass both
 * secrets. Deliveries of app subscriptions, and those of the app's own endpoint, are signed with the app's signing
 * secret on all stores: `event.store` is the store that the signed header names.
 */
export async function verify(
  body: string | Uint8Array,
  headers: HeaderSource,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<Event> {
  await check(body, headers, secret, options);
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  let event: Event | undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "type" in parsed && "id" in parsed) event = parsed as Event;
  } catch (error) {
    throw new SignatureRefused("the signed body is not JSON", { cause: error });
  }
  if (!event) throw new SignatureRefused("the signed body is not an event");
  if (header(headers, "webhook-store") && (await storeOf(headers, secret, options)) !== event.store?.id) {
    throw new SignatureRefused("webhook-store names another store than the event");
  }
  return event;
}

/**
 * The id of the store that a message of an app subscription names, verified without reading the body.
 *
 * Use it to choose a queue or a database for the message. Call `verify` with the body before you use its content.
 */
export async function storeOf(
  headers: HeaderSource,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<number> {
  const store = header(headers, "webhook-store");
  if (!/^[0-9]{1,15}$/.test(store)) {
    throw new SignatureRefused("webhook-store is required: only deliveries with the app's signing secret have it");
  }
  const { id, stamp, signatures } = signedParts(headers, options);
  await match(joined(`store.${id}.${stamp}.${store}`, ""), signatures, "v1s,", secret);
  return Number(store);
}

/** Refuse a message with a wrong signature, or with a timestamp outside the tolerance. */
export async function check(
  body: string | Uint8Array,
  headers: HeaderSource,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<void> {
  const { id, stamp, signatures } = signedParts(headers, options);
  await match(joined(`${id}.${stamp}.`, body), signatures, "v1,", secret);
}

/** A delivery as the service sends it. */
export interface SignedDelivery {
  /** The raw body. */
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface SignOptions {
  /** Name the store in a signed header, as deliveries with the app's signing secret do. */
  appSecret?: boolean | undefined;
  /** The time of the delivery, in seconds since 1970; by default that of the clock. */
  now?: number | undefined;
}

/** A signed delivery of an event, to test a receiver; pass a raw body to sign exactly this text. */
export async function sign(
  event: Event | string,
  secret: string,
  { appSecret = false, now = Date.now() / 1000 }: SignOptions = {},
): Promise<SignedDelivery> {
  const body = typeof event === "string" ? event : JSON.stringify(event);
  const { id, store } = JSON.parse(body) as { id: string; store: { id: number } };
  const stamp = Math.floor(now);
  const key = await keyOf(secret);
  const signature = async (version: string, signed: string): Promise<string> => {
    const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(signed)));
    return version + btoa(String.fromCharCode(...bytes));
  };
  const signatures = [await signature("v1,", `${id}.${stamp}.${body}`)];
  if (appSecret) signatures.push(await signature("v1s,", `store.${id}.${stamp}.${store.id}`));
  const headers = {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(stamp),
    ...(appSecret && { "webhook-store": String(store.id) }),
    "webhook-signature": signatures.join(" "),
  };
  return { body, headers };
}

/** The id, the timestamp and the signatures of a message; refuses a timestamp outside the tolerance. */
function signedParts(
  headers: HeaderSource,
  { toleranceS = TOLERANCE_S, now = Date.now() / 1000 }: VerifyOptions,
): { id: string; stamp: string; signatures: string } {
  const [id, stamp, signatures] = ["id", "timestamp", "signature"].map((name) => header(headers, `webhook-${name}`));
  if (!id || !stamp || !signatures) {
    throw new SignatureRefused("the headers webhook-id, webhook-timestamp and webhook-signature are required");
  }
  // A signed text that is no event, such as the return from an install link.
  if (id.includes(".")) throw new SignatureRefused("webhook-id must not contain a period");
  if (!/^[0-9]{1,15}$/.test(stamp)) throw new SignatureRefused("webhook-timestamp must be a number of seconds");
  if (!(Math.abs(now - Number(stamp)) <= toleranceS)) {
    throw new SignatureRefused("webhook-timestamp is too far from the current time; check the clock");
  }
  return { id, stamp, signatures };
}

async function match(
  signed: Uint8Array<ArrayBuffer>,
  signatures: string,
  version: string,
  secret: string | readonly string[],
): Promise<void> {
  const secrets = typeof secret === "string" ? [secret] : secret;
  if (!secrets.length) throw new TypeError("pass at least one secret");
  const offered = signatures
    .split(" ")
    .flatMap((each) => (each.startsWith(version) ? [bytesOf(each.slice(version.length))] : []));
  let matches = 0;
  for (const each of secrets) {
    const key = await keyOf(each);
    // `crypto.subtle.verify` compares in constant time, and every pair is compared.
    for (const one of offered) if (one && (await crypto.subtle.verify("HMAC", key, one, signed))) matches += 1;
  }
  if (!matches) {
    const hint = "check the secret of the subscription, and that the body is unchanged";
    throw new SignatureRefused(`no signature matches; ${hint}`);
  }
}

function header(headers: HeaderSource, name: string): string {
  const found = isReader(headers) ? headers.get(name) : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return (typeof found === "string" ? found : (found?.join(" ") ?? "")).trim();
}

/** By its method, because the class of another realm, such as that of `undici` or a VM, is another one. */
function isReader(headers: HeaderSource): headers is HeaderReader {
  return typeof headers.get === "function";
}

function joined(before: string, body: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const [first, second] = [encoder.encode(before), typeof body === "string" ? encoder.encode(body) : body];
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

export function keyOf(secret: string): Promise<CryptoKey> {
  const bytes = bytesOf(secret.replace(/^whsec_/, ""));
  if (!bytes?.length) throw new TypeError("a secret must be whsec_ followed by base64");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

/** The bytes of base64 text; null if it is not base64. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64) || base64.length % 4) return null;
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
