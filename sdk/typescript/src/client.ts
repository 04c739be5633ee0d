/** The client: credentials, store and retry options. */
import { Connection, unexpected } from "./connection.js";
import { Resources } from "./generated/resources.js";
import type { Hooks } from "./hooks.js";
import { Limiter } from "./limiter.js";
import type { AnyOptions } from "./options.js";
import type { PrivateKey, PrivateKeySource } from "./private-keys.js";
import { address, pathOf, PREFIX } from "./requests.js";
import type { RetryPolicy } from "./retries.js";
import { type Credentials, TokenCache, type TokenSource } from "./tokens.js";
import { jsonObject } from "./problems.js";

/** The credentials, `clientId` with `clientSecret` or `privateKey`, or a `token`, and the options of all calls. */
export interface ClientOptions extends Hooks {
  clientId?: string | undefined;
  clientSecret?: string | undefined;
  /** A private key, as PEM (PKCS #8), as a JWK, or as a `PrivateKey`, whose public key the app has registered. */
  privateKey?: PrivateKeySource | PrivateKey | undefined;
  /** The service's token endpoint, whose tokens are valid on every store; by default the store's own endpoint. */
  authUrl?: string | undefined;
  /** An existing token, or a function that returns one; it receives the token that was refused, if any. */
  token?: string | TokenSource | undefined;
  /** The scopes of the token; by default all that are granted. */
  scopes?: readonly string[] | undefined;
  /** How often a call is retried after a transient error; 4 by default. */
  retries?: number | undefined;
  /**
   * How long a call may take with all its attempts and waits; 60,000 ms by default. Time that a call asks the service to
   * wait, and the time of an upload, are added to it and to `timeoutMs`.
   */
  deadlineMs?: number | undefined;
  /** How long one attempt may take until its response is complete; 30,000 ms by default. */
  timeoutMs?: number | undefined;
  /** How many calls are in progress at the same time; 16 by default. Further calls wait their turn. */
  concurrency?: number | undefined;
  /** Replaces the `fetch` of the runtime, for proxies and tests. */
  fetch?: typeof globalThis.fetch | undefined;
}

// One entry for each option, which the compiler checks.
const KNOWN: Readonly<Record<keyof ClientOptions, true>> = {
  clientId: true,
  clientSecret: true,
  privateKey: true,
  authUrl: true,
  token: true,
  scopes: true,
  retries: true,
  deadlineMs: true,
  timeoutMs: true,
  concurrency: true,
  fetch: true,
  onRequest: true,
  onResponse: true,
};

type Variables = Readonly<Record<string, string | undefined>>;

/** A client for one store. All its concurrent calls share one token and one rate limiter. */
export class Client extends Resources {
  readonly baseUrl: string;
  readonly #options: ClientOptions;
  readonly #connection: Connection;
  readonly #token: TokenSource;

  constructor(baseUrl: string, options: ClientOptions) {
    refuseUnknown(options);
    const base = address("baseUrl", baseUrl).replace(new RegExp(`${PREFIX}$`), "");
    const { concurrency = 16, timeoutMs = 30_000 } = options;
    const policy: RetryPolicy = { retries: options.retries ?? 4, deadlineMs: options.deadlineMs ?? 60_000 };
    const fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    const { onRequest, onResponse } = options;
    const hooks: Hooks = { onRequest, onResponse };
    const token = tokenSource(base, options, (credentials) => new TokenCache(fetch, credentials, policy, timeoutMs, hooks, base).get);
    const connection = new Connection(fetch, base, policy, new Limiter(concurrency), token, timeoutMs, hooks);
    super(connection);
    this.baseUrl = base;
    this.#options = options;
    this.#connection = connection;
    this.#token = token;
  }

  /** A client from `STOA_BASE_URL`, `STOA_CLIENT_ID`, `STOA_CLIENT_SECRET` or `STOA_PRIVATE_KEY` and, if set, `STOA_AUTH_URL`. */
  static fromEnvironment(options: ClientOptions = {}, variables: Variables = environment()): Client {
    const privateKey = variables["STOA_PRIVATE_KEY"];
    const needed = ["STOA_BASE_URL", "STOA_CLIENT_ID", ...(privateKey ? [] : ["STOA_CLIENT_SECRET"])];
    const missing = needed.filter((name) => !variables[name]);
    if (missing.length) throw new TypeError(`set the environment variables ${missing.join(", ")}`);
    const { STOA_BASE_URL: base = "", STOA_CLIENT_ID: clientId, STOA_CLIENT_SECRET: clientSecret, STOA_AUTH_URL: authUrl } = variables;
    const secret = privateKey ? { privateKey } : { clientSecret };
    return new Client(base, { clientId, ...secret, authUrl, ...options });
  }

  /** A client of the same app for another store, with the same token if it is valid there. */
  at(baseUrl: string): Client {
    if (!this.#options.authUrl || this.#options.token) return new Client(baseUrl, this.#options);
    const { clientId: _id, clientSecret: _secret, privateKey: _key, authUrl: _url, ...rest } = this.#options;
    return new Client(baseUrl, { ...rest, token: this.#token });
  }

  /** Send any request under `/api/v3/app`, with token, idempotency key and retries; returns the decoded JSON. */
  async request(
    method: string,
    path: string,
    { query, body, ...options }: AnyOptions & { query?: Record<string, unknown> | undefined; body?: unknown } = {},
  ): Promise<unknown> {
    return this.#connection.read(method, pathOf(path), { body, options: { ...query, ...options } }, (received) => {
      if (received.status === 204) return undefined;
      const decoded = jsonObject(received.text);
      if (decoded && received.status < 300) return decoded;
      throw unexpected(received);
    });
  }
}

/** Refuse a misspelled option, which the compiler finds only in a literal. */
function refuseUnknown(options: ClientOptions): void {
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(KNOWN, name)) {
      throw new TypeError(`unknown option ${JSON.stringify(name)}; the options are ${Object.keys(KNOWN).join(", ")}`);
    }
  }
}

function tokenSource(base: string, options: ClientOptions, cached: (credentials: Credentials) => TokenSource): TokenSource {
  const { clientId, clientSecret, privateKey, token, scopes = [] } = options;
  const credentials = Boolean(clientId && (clientSecret || privateKey));
  if (Boolean(token) === credentials || (clientSecret && privateKey)) {
    throw new TypeError("pass either clientId and clientSecret, clientId and privateKey, or a token");
  }
  if (typeof token === "function") return token;
  if (token) return () => token;
  const authUrl = options.authUrl ? address("authUrl", options.authUrl) : `${base}/oauth/token`;
  return cached({ authUrl, clientId: clientId ?? "", clientSecret: clientSecret ?? "", privateKey, scopes });
}

function environment(): Variables {
  return (globalThis as { process?: { env?: Variables } }).process?.env ?? {};
}
