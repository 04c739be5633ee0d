/** One attempt of a request: sent with `fetch`, and read in full unless it is streamed. */
import { ConnectionFailed } from "./errors.js";
import { after } from "./sleep.js";

export const VERSION = "0.4.0-dev.0";

/** A request, which is the same in every attempt. */
export interface Outgoing {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Blob | undefined;
  readonly timeoutMs: number;
  /** When a stream must have ended, by the clock of `performance`. */
  readonly endsAt?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether the body is read in parts, as it arrives. */
  readonly stream?: boolean;
  /** Whether the service answers only after a while; such a call must not hold others back. */
  readonly longPoll?: boolean;
}

/** A response whose body has been read; `stream` is set instead of `text` if it is read in parts. */
export interface Received {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly stream?: AsyncGenerator<Uint8Array, void>;
}

/** The time of an attempt ended before its response was complete. */
export class TimedOut extends ConnectionFailed {
  override name = "ConnectionFailed"; // callers know only that
}

const SLOWEST_DOWNLOAD = 10; // bytes in a millisecond, of a body that is read in parts
const node = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node;
const USER_AGENT = `stoa-typescript/${VERSION}${node ? ` node/${node}` : ""}`;

/** Send a request once. Throws `ConnectionFailed` if no complete response comes, or the caller's reason to abort. */
export async function attempt(fetch: typeof globalThis.fetch, request: Outgoing, token?: string): Promise<Received> {
  const headers = new Headers({ "user-agent": USER_AGENT, ...request.headers });
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  const clock = new Clock(request.timeoutMs, request.signal);
  let streaming = false;
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers,
      body: request.body ?? null,
      redirect: "manual", // a redirect must not carry the token elsewhere
      signal: clock.signal,
    });
    const { status } = response;
    if (request.stream && status < 300 && response.body) {
      streaming = true;
      return { status, headers: response.headers, text: "", stream: parts(response.body, clock, request) };
    }
    return { status, headers: response.headers, text: await response.text() };
  } catch (error) {
    throw clock.failure(error);
  } finally {
    if (!streaming) clock.stop();
  }
}

/** The parts of a body as they arrive. The time that their reader takes for each does not count. */
async function* parts(
  body: ReadableStream<Uint8Array>,
  clock: Clock,
  { timeoutMs, endsAt = Infinity }: Outgoing,
): AsyncGenerator<Uint8Array, void> {
  const reader = body.getReader();
  let leftMs = timeoutMs;
  try {
    for (;;) {
      const askedAt = performance.now();
      clock.restart(Math.min(leftMs, endsAt - askedAt));
      const { done, value } = await reader.read();
      clock.stop();
      if (done) return;
      leftMs = Math.min(timeoutMs, leftMs - (performance.now() - askedAt) + value.byteLength / SLOWEST_DOWNLOAD);
      yield value;
    }
  } catch (error) {
    throw clock.failure(error);
  } finally {
    clock.stop();
    void reader.cancel().catch(() => undefined); // a reader who stops early does not wait for the rest
  }
}

/** Aborts an attempt after a time, or when the caller does. */
class Clock {
  readonly #abort = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timeoutMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #late = false;

  constructor(timeoutMs: number, caller: AbortSignal | undefined) {
    this.#timeoutMs = timeoutMs;
    this.#caller = caller;
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  readonly #stopForCaller = (): void => this.#abort.abort(this.#caller?.reason);

  restart(timeoutMs = this.#timeoutMs): void {
    clearTimeout(this.#timer);
    this.#caller?.throwIfAborted(); // perhaps while the reader was busy with a part
    this.#caller?.addEventListener("abort", this.#stopForCaller, { once: true });
    this.#timer = after(timeoutMs, () => {
      this.#late = true;
      this.#abort.abort();
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#stopForCaller);
  }

  /** What to throw instead of the error of `fetch`. */
  failure(error: unknown): unknown {
    if (this.#caller?.aborted) return this.#caller.reason;
    if (this.#late) {
      return new TimedOut(`no complete response within ${Math.round(this.#timeoutMs)} ms`, { cause: error });
    }
    return new ConnectionFailed(`no complete response: ${reason(error)}`, { cause: error });
  }
}

/** The most specific message: `fetch` itself says only "fetch failed". */
function reason(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(inner instanceof Error)) return String(inner);
  return inner.message || String((inner as { code?: unknown }).code ?? inner.name);
}
