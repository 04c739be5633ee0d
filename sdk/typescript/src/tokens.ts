/** Access tokens: requested with the app's credentials, cached, and renewed before they expire. */
import { ConnectionFailed, TokenRefused, UnexpectedAnswer } from "./errors.js";
import { type Hooks, observed } from "./hooks.js";
import { ASSERTION_TYPE, PrivateKey, type PrivateKeySource } from "./private-keys.js";
import { excerpt, jsonObject, refusal } from "./problems.js";
import { Attempts, type RetryPolicy } from "./retries.js";
import { attempt, type Outgoing, type Received } from "./transport.js";

/** Returns a token other than the stale one. */
export type TokenSource = (stale?: string) => string | Promise<string>;

export interface Credentials {
  readonly authUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly privateKey?: PrivateKeySource | PrivateKey | undefined;
  readonly scopes: readonly string[];
}

const EARLY_MS = 60_000; // before expiry, or a tenth of the lifetime if that is less

interface Token {
  readonly text: string;
  /** By the monotonic clock, so that a change of the time of day has no effect. */
  readonly renewAt: number;
}

/** The token of one app. Concurrent calls share one request for it. */
export class TokenCache {
  readonly #request: () => Promise<Token>;
  #token: Token | undefined;
  #pending: Promise<Token> | undefined;

  constructor(
    fetch: typeof globalThis.fetch,
    credentials: Credentials,
    policy: RetryPolicy,
    timeoutMs: number,
    hooks: Hooks = {},
    baseUrl = "",
  ) {
    const send = (request: Outgoing, times: number) => observed(hooks, baseUrl, request, times, () => attempt(fetch, request));
    this.#request = () => requestToken(send, credentials, policy, timeoutMs);
  }

  readonly get: TokenSource = async (stale) => {
    if (this.#token && this.#token.text !== stale && performance.now() < this.#token.renewAt) return this.#token.text;
    this.#pending ??= this.#request().finally(() => (this.#pending = undefined));
    this.#token = await this.#pending;
    return this.#token.text;
  };
}

async function requestToken(
  send: (request: Outgoing, times: number) => Promise<Received>,
  credentials: Credentials,
  policy: RetryPolicy,
  timeoutMs: number,
): Promise<Token> {
  const attempts = new Attempts(policy);
  for (let times = 1; ; times += 1) {
    // The service accepts an assertion once, also if its response was lost, so each attempt has one of its own.
    const request = await tokenRequest(credentials, timeoutMs);
    const requestedAt = performance.now();
    const outcome = await send(request, times).catch(failedConnection);
    if (outcome instanceof ConnectionFailed) await attempts.pause(outcome);
    else if (outcome.status < 400) return tokenIn(outcome, requestedAt);
    else {
      refuseIfFinal(outcome);
      await attempts.pause(outcome);
    }
  }
}

async function tokenRequest(
  { authUrl, clientId, clientSecret, privateKey, scopes }: Credentials,
  timeoutMs: number,
): Promise<Outgoing> {
  const form = new URLSearchParams({ grant_type: "client_credentials" });
  if (scopes.length) form.set("scope", scopes.join(" "));
  const headers: Record<string, string> = { accept: "application/json", "content-type": "application/x-www-form-urlencoded" };
  if (privateKey) {
    const key = privateKey instanceof PrivateKey ? privateKey : await PrivateKey.from(privateKey);
    form.set("client_assertion_type", ASSERTION_TYPE);
    form.set("client_assertion", await key.assertion(clientId, authUrl));
  } else {
    headers["authorization"] = basic(clientId, clientSecret);
  }
  return { method: "POST", url: authUrl, headers, body: form.toString(), timeoutMs };
}

/** The credentials as a header; RFC 6749 requires both to be form-encoded. */
export function basic(clientId: string, clientSecret: string): string {
  return `Basic ${btoa(`${encoded(clientId)}:${encoded(clientSecret)}`)}`;
}

function encoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

export function failedConnection(error: unknown): ConnectionFailed {
  if (error instanceof ConnectionFailed) return error;
  throw error;
}

function tokenIn(received: Received, requestedAt: number): Token {
  const body = jsonObject(received.text);
  const text = body?.["access_token"];
  if (received.status !== 200 || typeof text !== "string") {
    const message = `authUrl is not a token endpoint: ${received.status} ${excerpt(received.text)}`;
    throw new UnexpectedAnswer(message, received.status, excerpt(received.text));
  }
  const expiresMs = (typeof body?.["expires_in"] === "number" ? body["expires_in"] : 3600) * 1000;
  return { text, renewAt: requestedAt + expiresMs - Math.min(EARLY_MS, expiresMs / 10) };
}

/** An OAuth error is `TokenRefused`; another refusal, such as an unknown store, is the error of its code. */
function refuseIfFinal(received: Received): void {
  const body = jsonObject(received.text);
  if (typeof body?.["error"] === "string" && received.status < 500 && received.status !== 429) {
    throw new TokenRefused(received.status, body["error"], String(body["error_description"] ?? ""));
  }
  if (received.status === 404) throw refusal(received);
}
