/** Waiting that the caller can abort. */

/** The result of some work, unless the caller aborts first; the work itself continues. */
export function abortable<T>(work: T | Promise<T>, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    Promise.resolve(work)
      .finally(() => signal?.removeEventListener("abort", stop))
      .then(resolve, reject);
  });
}

/** Wait for this long, or until the caller aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
