/** Waiting that the caller can abort, and that ends at a deadline by the clock of `performance`. */
import { DeadlineExceeded } from "./errors.js";

/** The result of some work, unless the caller aborts or the deadline passes first; the work itself continues. */
export function abortable<T>(work: T | Promise<T>, deadline: number, what: string, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const result = Promise.resolve(work);
    result.then(resolve, reject); // at once: work that fails without a handler would end the program
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => reject(signal?.reason);
    const timer = at(deadline, () => reject(new DeadlineExceeded(`${what} before the deadline of the call`)));
    signal?.addEventListener("abort", stop, { once: true });
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    };
    result.then(settle, settle);
  });
}

/** Call something at a time. */
export function at(time: number, call: () => void): ReturnType<typeof setTimeout> {
  return after(time - performance.now(), call);
}

/** Call something after a time, which may be infinite. */
export function after(ms: number, call: () => void): ReturnType<typeof setTimeout> {
  return setTimeout(call, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
}

const LONGEST_TIMER_MS = 2 ** 31 - 1; // a longer one would end at once

/** Wait for this long, or until the caller aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = after(ms, () => {
      signal?.removeEventListener("abort", stop);
      resolve();
    });
    signal?.addEventListener("abort", stop, { once: true });
  });
}
