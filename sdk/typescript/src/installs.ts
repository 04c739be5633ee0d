/** Installations of an app: verifies the return from an install link, and lists the stores that installed the app. */
import { ConnectionFailed, InstallRefused, SignatureRefused, UnexpectedAnswer } from "./errors.js";
import { Cursors } from "./pages.js";
import { excerpt, jsonObject, refusal } from "./problems.js";
import { address } from "./requests.js";
import { Attempts, type RetryPolicy } from "./retries.js";
import type { PrivateKey, PrivateKeySource } from "./private-keys.js";
import { abortable } from "./sleep.js";
import { basic, type Credentials, failedConnection, TokenCache, type TokenSource } from "./tokens.js";
import { attempt, type Outgoing } from "./transport.js";
import { keyOf, TOLERANCE_S, type VerifyOptions } from "./webhooks.js";

/** A verified return from an install link. */
export interface CompletedInstall {
  /** The handle of the store that installed the app. */
  readonly store: string;
  /** The `state` of your link. */
  readonly state: string;
  /** When the merchant approved, in seconds since 1970. */
  readonly timestamp: number;
}

/** A store that installed the app or, with the status `uninstalled`, one that did before. */
export interface Installation {
  readonly store: {
    readonly id: number;
    readonly handle: string;
    readonly name: string;
    /** Pass it to `new Client` or `client.at`. */
    readonly base_url: string;
    readonly currency: string;
    readonly timezone: string;
    readonly locale: string;
  };
  readonly scopes: readonly string[];
  readonly status: "installed" | "uninstalled";
  readonly installed_at: string;
  readonly updated_at: string;
}

export interface InstallationsOptions {
  /** The URL of the service's token endpoint. */
  authUrl: string;
  clientId: string;
  clientSecret?: string | undefined;
  /** Instead of `clientSecret`: a private key whose public key the app has registered. */
  privateKey?: PrivateKeySource | PrivateKey | undefined;
  /** Only installations that were installed, changed or uninstalled at or after this time. */
  updatedSince?: Date | string | undefined;
  /** How long one attempt may take; 30,000 ms by default. */
  timeoutMs?: number | undefined;
  /** Cancels the iteration, including its retries and waits. */
  signal?: AbortSignal | undefined;
  /** Replaces the `fetch` of the runtime, for proxies and tests. */
  fetch?: typeof globalThis.fetch | undefined;
}

const POLICY: RetryPolicy = { retries: 4, deadlineMs: 60_000 };

/**
 * Check a return from an install link: its URL, the client id, the signing secret of the app, and the `state` of your link.
 *
 * Throws `InstallRefused` if the merchant refused, and `SignatureRefused` if the return is forged or too old.
 */
export async function verifyInstall(
  returned: string | URL | URLSearchParams,
  clientId: string,
  secret: string | readonly string[],
  { state = "", toleranceS = TOLERANCE_S, now = Date.now() / 1000 }: VerifyOptions & { state?: string | undefined } = {},
): Promise<CompletedInstall> {
  const secrets = typeof secret === "string" ? [secret] : secret;
  if (!secrets.length) throw new TypeError("pass at least one secret");
  const query = returned instanceof URLSearchParams ? returned : queryOf(String(returned));
  if ((query.get("state") ?? "") !== state) throw new SignatureRefused("state differs from the state of the install link");
  const error = query.get("error");
  if (error !== null) throw new InstallRefused(error);
  const [store, stamp, signatures] = ["store", "timestamp", "signature"].map((name) => query.get(name) ?? "");
  if (!store || !stamp || !signatures || !/^[0-9]{1,15}$/.test(stamp)) {
    throw new SignatureRefused("store, timestamp and signature are required");
  }
  if (!(Math.abs(now - Number(stamp)) <= toleranceS)) {
    throw new SignatureRefused("timestamp is too far from the current time; check the clock");
  }
  const signed = new TextEncoder().encode(`install.${clientId}.${store}.${stamp}.${state}`);
  let matches = 0;
  for (const each of secrets) {
    const key = await keyOf(each);
    for (const one of signatures.split(",").map(bytesOfHex)) {
      if (one && (await crypto.subtle.verify("HMAC", key, one, signed))) matches += 1;
    }
  }
  if (!matches) throw new SignatureRefused("no signature matches; check the signing secret of the app");
  return { store, state, timestamp: Number(stamp) };
}

/** Every installation of the app, also removed ones, page by page. */
export async function* installations(options: InstallationsOptions): AsyncGenerator<Installation, void, undefined> {
  const { clientId, clientSecret = "", privateKey, updatedSince, timeoutMs = 30_000, signal } = options;
  const authUrl = address("authUrl", options.authUrl);
  const fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  const url = `${authUrl.replace(/\/token$/, "")}/installations`;
  const credentials: Credentials = { authUrl, clientId, clientSecret, privateKey, scopes: [] };
  const token = privateKey ? new TokenCache(fetch, credentials, POLICY, timeoutMs).get : undefined;
  const headers = { accept: "application/json", ...(!token && { authorization: basic(clientId, clientSecret) }) };
  const since = updatedSince instanceof Date ? updatedSince.toISOString() : updatedSince;
  let query = new URLSearchParams({ limit: "250", ...(since && { updated_since: since }) });
  const cursors = new Cursors();
  for (;;) {
    const page = await pageAt(fetch, { method: "GET", url: `${url}?${query}`, headers, timeoutMs, signal }, token);
    yield* page.data;
    const cursor = cursors.follow(page.cursor);
    if (cursor === null) return;
    query = new URLSearchParams({ limit: "250", cursor });
  }
}

async function pageAt(
  fetch: typeof globalThis.fetch,
  request: Outgoing,
  source?: TokenSource,
): Promise<{ data: Installation[]; cursor: string | null }> {
  const deadline = performance.now() + POLICY.deadlineMs;
  const attempts = new Attempts(POLICY, deadline, request.signal);
  const authorized = async (stale?: string) => source && abortable(source(stale), deadline, "no token came", request.signal);
  let token = await authorized();
  let renewed = false;
  for (;;) {
    const outcome = await attempt(fetch, request, token).catch(failedConnection);
    if (!(outcome instanceof ConnectionFailed) && outcome.status < 400) {
      const body = jsonObject(outcome.text);
      const meta = body?.["meta"] as { next_cursor?: unknown } | undefined;
      if (Array.isArray(body?.["data"]) && meta) {
        return { data: body["data"] as Installation[], cursor: typeof meta.next_cursor === "string" ? meta.next_cursor : null };
      }
      const shown = excerpt(outcome.text);
      throw new UnexpectedAnswer(`${outcome.status} with an unexpected body: ${shown}`, outcome.status, shown);
    }
    if (!(outcome instanceof ConnectionFailed) && outcome.status === 401 && !renewed) {
      renewed = true;
      const stale = token;
      token = await authorized(stale);
      if (token !== stale) continue;
    }
    if (!(outcome instanceof ConnectionFailed) && outcome.status < 500 && outcome.status !== 429) throw refusal(outcome);
    await attempts.pause(outcome);
  }
}

function queryOf(returned: string): URLSearchParams {
  const start = returned.indexOf("?");
  return new URLSearchParams(start < 0 ? returned : returned.slice(start).replace(/#.*$/, ""));
}

function bytesOfHex(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^(?:[0-9a-f]{2})+$/.test(text)) return null;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
