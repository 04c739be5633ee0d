/** The rate limiter of a client, which all its concurrent calls share. */
import { retryAfterS } from "./problems.js";
import { DeadlineExceeded } from "./errors.js";
import { at, sleep } from "./sleep.js";
import type { Received } from "./transport.js";

/** The pace after a refusal that does not tell the rate, and below which calls are no longer spaced. */
const UNKNOWN_PACE_MS = 100;
const NO_PACE_MS = 5;
const JITTER_MS = 200;
const FASTER = 0.95;
/** One refusal must not stop a client for an hour, so later calls find out for themselves. */
const LONGEST_HOLD_MS: Readonly<Record<number, number>> = { 429: 60_000, 503: 5_000 };

/**
 * Bounds the calls in progress, and spaces them when the service reports that the rate limit is nearly used up.
 *
 * A call that is refused holds all others back for some of its `Retry-After`, so that one refusal is enough for all of
 * them. The service reports its rate in `RateLimit-Policy` and the remaining requests in `RateLimit`.
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
  async run<T>(call: () => Promise<T>, deadline: number, signal?: AbortSignal): Promise<T> {
    if (this.#running < this.#concurrency) this.#running += 1;
    else await this.#place(deadline, signal);
    try {
      return await call();
    } finally {
      const next = this.#waiting.shift();
      if (next) next(); // it takes over the place
      else this.#running -= 1;
    }
  }

  #place(deadline: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
      const enter = (): void => {
        settle();
        resolve();
      };
      const leave = (reason: unknown): void => {
        settle();
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(reason);
      };
      const abort = (): void => leave(signal?.reason);
      if (signal?.aborted) return reject(signal.reason);
      const message = "too many other calls of this client were in progress until the deadline";
      const timer = at(deadline, () => leave(new DeadlineExceeded(message)));
      signal?.addEventListener("abort", abort, { once: true });
      this.#waiting.push(enter);
    });
  }

  /** Wait until the next request may be sent. Returns how long that would take if it is after the deadline, else 0. */
  async turn(deadline: number, signal?: AbortSignal): Promise<number> {
    for (;;) {
      const now = performance.now();
      const next = Math.max(now, this.#next);
      if (next > deadline) return next - now;
      this.#next = next + this.#paceMs;
      if (next > now) await sleep(next - now, signal);
      if (next >= this.#heldUntil) return 0; // otherwise a refusal came in the meantime
    }
  }

  /** Learn from a response, which may hold all calls back. */
  observe(received: Received): void {
    const { status, headers } = received;
    const remaining = numberIn(headers.get("x-ratelimit-remaining"));
    const rateMs = paceOf(headers.get("ratelimit-policy"));
    const refused = status === 429 && !remaining; // with requests remaining, it concerns only this call
    const held = refused || (status === 503 && headers.has("retry-after"));
    if (held) {
      const askedMs = Math.min((retryAfterS(headers) ?? 1) * 1000, LONGEST_HOLD_MS[status] ?? 0);
      const waitMs = askedMs + Math.random() * JITTER_MS;
      this.#heldUntil = Math.max(this.#heldUntil, performance.now() + waitMs);
      this.#next = Math.max(this.#next, this.#heldUntil);
    }
    if (refused) this.#paceMs = rateMs ?? Math.max(UNKNOWN_PACE_MS, this.#paceMs);
    else if (remaining !== undefined) this.#paceMs = remaining > this.#running ? 0 : this.#adapted(rateMs, remaining);
    else if (this.#paceMs) this.#paceMs = this.#paceMs > NO_PACE_MS ? this.#paceMs / 2 : 0;
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
