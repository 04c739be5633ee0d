/** Decides whether and when a failed attempt is repeated. */
import { ConnectionFailed } from "./errors.js";
import { jsonObject, refusal, retryAfterS } from "./problems.js";
import { sleep } from "./sleep.js";
import type { Received } from "./transport.js";

export interface RetryPolicy {
  /** How often a call is retried after a transient error. */
  readonly retries: number;
  /** How long a call may take with all its attempts and waits. */
  readonly deadlineMs: number;
}

const TRANSIENT = new Set([408, 429, 502, 503, 504]);
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8000;
const FIRST_LEAST_MS = 50;
const LONGEST_LEAST_MS = 2000;

/** Whether the service had no capacity for the request, which therefore had no effect. */
export function isRefusal(outcome: Received | ConnectionFailed): boolean {
  return !(outcome instanceof ConnectionFailed) && (outcome.status === 429 || outcome.status === 503);
}

/** The attempts of one call, which end at its deadline. */
export class Attempts {
  readonly #policy: RetryPolicy;
  readonly #deadline: number;
  readonly #signal: AbortSignal | undefined;
  #failures = 0;
  #refusals = 0;
  #attempts = 0;

  constructor(policy: RetryPolicy, deadline = performance.now() + policy.deadlineMs, signal?: AbortSignal) {
    this.#policy = policy;
    this.#deadline = deadline;
    this.#signal = signal;
  }

  /** Wait before the next attempt, or throw the error if there is none. */
  async pause(outcome: Received | ConnectionFailed): Promise<void> {
    this.#attempts += 1;
    const askedS = outcome instanceof ConnectionFailed ? undefined : retryAfterS(outcome.headers);
    let pauseMs: number;
    if (isRefusal(outcome) && askedS !== undefined) {
      // The service says when to return, so the deadline decides and not the number of attempts.
      const leastMs = Math.min(FIRST_LEAST_MS * 2 ** this.#refusals, LONGEST_LEAST_MS); // in case it always asks for 0
      pauseMs = Math.max(askedS * 1000, leastMs);
      this.#refusals += 1;
    } else {
      this.#failures += 1;
      if (this.#failures > this.#policy.retries || !this.#isTransient(outcome)) throw this.error(outcome);
      const backoffMs = Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), LONGEST_PAUSE_MS);
      pauseMs = askedS === undefined ? (0.5 + Math.random() / 2) * backoffMs : askedS * 1000;
    }
    if (performance.now() + pauseMs >= this.#deadline) throw this.error(outcome);
    return sleep(pauseMs, this.#signal);
  }

  #isTransient(outcome: Received | ConnectionFailed): boolean {
    // Another attempt is always safe: a read changes nothing, a write has an idempotency key, and a second token does
    // no harm.
    if (outcome instanceof ConnectionFailed) return true;
    return TRANSIENT.has(outcome.status) || jsonObject(outcome.text)?.["retryable"] === true;
  }

  /** What to throw for the last outcome. */
  error(outcome: Received | ConnectionFailed): Error {
    if (!(outcome instanceof ConnectionFailed)) return refusal(outcome);
    const attempts = this.#attempts === 1 ? "1 attempt" : `${this.#attempts} attempts`;
    return new ConnectionFailed(`${outcome.message} (${attempts})`, { cause: outcome.cause });
  }
}
