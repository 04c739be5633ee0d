/** The rate limiter of a client, which all its concurrent calls share. */
import { retryAfterS } from "./problems.js";
import { sleep } from "./sleep.js";
import type { Received } from "./transport.js";

/** The pace after a refusal that does not tell the rate, and below which calls are no longer spaced. */
const UNKNOWN_PACE_MS = 100;
const NO_PACE_MS = 5;
const JITTER_MS = 200;
const FASTER = 0.95;

/**
 * Bounds the calls in progress, and spaces them when the service reports that the rate limit is nearly used up.
 *
 * A call that is refused holds all others back until `Retry-After`, so that one refusal is enough for all of them.
 * The service reports its rate in `RateLimit-Policy` and the remaining requests in `RateLimit`.
 */
export class Limiter {
  readonly #concurrency: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #heldUntil = 0;
  #next = 0; // when the next request may be sent
  #paceMs = 0; // the time between two requests

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /** Run a call when fewer than the allowed number are in progress, in the order of arrival. */
  async run<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#running < this.#concurrency) this.#running += 1;
    else await this.#place(signal);
    try {
      return await call();
    } finally {
      const next = this.#waiting.shift();
      if (next) next(); // it takes over the place
      else this.#running -= 1;
    }
  }

  #place(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(signal?.reason);
      };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(enter);
    });
  }

  /** Wait until the next request may be sent. */
  async turn(signal?: AbortSignal): Promise<void> {
    for (;;) {
      const now = performance.now();
      const at = Math.max(now, this.#next);
      this.#next = at + this.#paceMs;
      if (at > now) await sleep(at - now, signal);
      if (at >= this.#heldUntil) return; // otherwise a refusal came in the meantime
    }
  }

  /** Learn from a response. Returns true if all calls wait now, including the one that was refused. */
  observe(received: Received): boolean {
    const { status, headers } = received;
    const remaining = numberIn(headers.get("x-ratelimit-remaining"));
    const rateMs = paceOf(headers.get("ratelimit-policy"));
    const refused = status === 429 && !remaining; // with requests remaining, it concerns only this call
    const held = refused || (status === 503 && headers.has("retry-after"));
    if (held) {
      const waitMs = (retryAfterS(headers) ?? 1) * 1000 + Math.random() * JITTER_MS;
      this.#heldUntil = Math.max(this.#heldUntil, performance.now() + waitMs);
      this.#next = Math.max(this.#next, this.#heldUntil);
    }
    if (refused) this.#paceMs = rateMs ?? Math.max(UNKNOWN_PACE_MS, this.#paceMs);
    else if (remaining !== undefined) this.#paceMs = remaining > this.#running ? 0 : this.#adapted(rateMs, remaining);
    else if (this.#paceMs) this.#paceMs = this.#paceMs > NO_PACE_MS ? this.#paceMs / 2 : 0;
    return held;
  }

  /** The pace of the policy, which is rounded up, or a faster one while requests remain. */
  #adapted(rateMs: number | undefined, remaining: number): number {
    const slowest = rateMs ?? UNKNOWN_PACE_MS;
    return this.#paceMs && remaining > 1 ? Math.min(slowest, this.#paceMs * FASTER) : slowest;
  }
}

function numberIn(text: string | null): number | undefined {
  return text !== null && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** The time between two requests at the rate of a policy such as `"default";q=600;w=60`. */
function paceOf(policy: string | null): number | undefined {
  const quota = Number(/;\s*q=(\d+)/.exec(policy ?? "")?.[1]);
  const windowS = Number(/;\s*w=(\d+)/.exec(policy ?? "")?.[1]);
  return quota > 0 && windowS > 0 ? (windowS * 1000) / quota : undefined;
}
