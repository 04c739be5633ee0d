/** Decides whether and when a failed attempt is repeated. */
import { ConnectionFailed } from "./errors.js";
import { jsonObject, refusal, retryAfterS } from "./problems.js";
import { sleep } from "./sleep.js";
import type { Received } from "./transport.js";

export interface RetryPolicy {
  /** How often a call is retried after a transient error. */
  readonly retries: number;
  /** How long a call keeps waiting for `Retry-After`, from its first attempt. */
  readonly deadlineMs: number;
}

const TRANSIENT = new Set([408, 429, 502, 503, 504]);
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8000;
const FIRST_LEAST_MS = 50;
const LONGEST_LEAST_MS = 2000;

/** The attempts of one call. */
export class Attempts {
  readonly #policy: RetryPolicy;
  readonly #signal: AbortSignal | undefined;
  readonly #deadline: number;
  #failures = 0;
  #refusals = 0;
  #attempts = 0;

  constructor(policy: RetryPolicy, signal?: AbortSignal) {
    this.#policy = policy;
    this.#signal = signal;
    this.#deadline = performance.now() + policy.deadlineMs;
  }

  /** Wait before the next attempt, or throw the error if there is none; `held` if the limiter waits for it. */
  async pause(outcome: Received | ConnectionFailed, held = false): Promise<void> {
    this.#attempts += 1;
    const waitS = outcome instanceof ConnectionFailed ? undefined : retryAfterS(outcome.headers);
    const refused = !(outcome instanceof ConnectionFailed) && (outcome.status === 429 || outcome.status === 503);
    const leastMs = Math.min(FIRST_LEAST_MS * 2 ** this.#refusals, LONGEST_LEAST_MS); // grows, in case it is always 0
    const askedMs = waitS === undefined ? undefined : Math.max(waitS * 1000, leastMs);
    if (askedMs !== undefined && performance.now() + askedMs > this.#deadline) throw this.#error(outcome);
    if (refused && waitS !== undefined) {
      // The service says when to return, so the deadline decides and not the number of attempts.
      this.#refusals += 1;
      return held && waitS * 1000 >= leastMs ? undefined : sleep(askedMs ?? 0, this.#signal);
    }
    this.#failures += 1;
    if (this.#failures > this.#policy.retries || !this.#isTransient(outcome)) throw this.#error(outcome);
    const backoffMs = Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), LONGEST_PAUSE_MS);
    return sleep(askedMs ?? (0.5 + Math.random() / 2) * backoffMs, this.#signal);
  }

  #isTransient(outcome: Received | ConnectionFailed): boolean {
    // Another attempt is always safe: a read changes nothing, a write has an idempotency key, and a second token does
    // no harm.
    if (outcome instanceof ConnectionFailed) return true;
    return TRANSIENT.has(outcome.status) || jsonObject(outcome.text)?.["retryable"] === true;
  }

  #error(outcome: Received | ConnectionFailed): Error {
    if (!(outcome instanceof ConnectionFailed)) return refusal(outcome);
    const attempts = this.#attempts === 1 ? "1 attempt" : `${this.#attempts} attempts`;
    return new ConnectionFailed(`${outcome.message} (${attempts})`, { cause: outcome.cause });
  }
}
