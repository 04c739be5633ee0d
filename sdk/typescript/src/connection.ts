/** The connection of an app to a store: every call gets a token, its turn, and retries. */
import { Answer, attach } from "./answers.js";
import { Batch, type Item } from "./batches.js";
import { ConnectionFailed, DeadlineExceeded, NotModified, StoaError, UnexpectedAnswer } from "./errors.js";
import { Export } from "./exports.js";
import { type Hooks, observed } from "./hooks.js";
import type { Limiter } from "./limiter.js";
import { type AnyOptions, begun, separated } from "./options.js";
import { Page, Pages } from "./pages.js";
import { excerpt, jsonObject } from "./problems.js";
import { headersFor, json, JSON_TYPE, PREFIX, queryString } from "./requests.js";
import { Attempts, isRefusal, type RetryPolicy } from "./retries.js";
import { abortable } from "./sleep.js";
import { failedConnection, type TokenSource } from "./tokens.js";
import { attempt, type Outgoing, type Received, TimedOut } from "./transport.js";
import { opened, type Upload } from "./uploads.js";

const SLOWEST_UPLOAD = 100; // bytes in a millisecond

/** What a call sends. */
export interface Call {
  readonly body?: unknown;
  readonly file?: Upload;
  readonly options?: AnyOptions;
  readonly accept?: string;
  readonly stream?: boolean;
  /** Whether a stream says in between where to resume. */
  readonly checkpoints?: boolean;
}

export class Connection {
  constructor(
    private readonly fetch: typeof globalThis.fetch,
    private readonly baseUrl: string,
    private readonly policy: RetryPolicy,
    private readonly limiter: Limiter,
    private readonly token: TokenSource,
    private readonly timeoutMs: number,
    private readonly hooks: Hooks = {},
  ) {}

  async call(method: string, path: string, given: Call = {}): Promise<Received> {
    return this.read(method, path, given, (received) => received);
  }

  /** Send a request, and read its response. Each error of a write gets its key, so that the caller can repeat it safely. */
  async read<T>(method: string, path: string, given: Call, reading: (received: Received) => T): Promise<T> {
    const request = await this.#request(method, path, given);
    try {
      const send = () => this.#send(request);
      return reading(await (request.longPoll ? send() : this.limiter.run(send, request.deadline, request.signal)));
    } catch (error) {
      const key = request.headers["idempotency-key"];
      if (error instanceof StoaError && key !== undefined) error.idempotencyKey = key;
      throw error;
    }
  }

  async #request(method: string, path: string, given: Call): Promise<Outgoing & { readonly deadline: number }> {
    const [options, query] = separated(given.options ?? {});
    const headers = headersFor(method, options, given.accept);
    if (given.checkpoints) headers["prefer"] = "checkpoints";
    let body: string | Blob | undefined;
    if (given.file !== undefined) {
      const upload = await opened(given.file, options.mediaType);
      headers["content-type"] = upload.mediaType;
      if (upload.gzipped) headers["content-encoding"] = "gzip";
      body = upload.blob;
    } else if (given.body !== undefined) {
      headers["content-type"] = JSON_TYPE;
      body = json(given.body);
    }
    const pollS = Number(query["wait"] ?? 0);
    // What the call may take in addition to its limits: the wait that it asks for, and the time of its upload.
    const size = body instanceof Blob ? body.size : (body ?? "").length;
    const allowanceMs = ((options.waitS ?? 0) + pollS) * 1000 + size / SLOWEST_UPLOAD;
    return {
      method,
      url: this.baseUrl + PREFIX + path + queryString(query),
      headers,
      body,
      timeoutMs: (options.timeoutMs ?? this.timeoutMs) + allowanceMs,
      deadline: Math.min(performance.now() + (options.deadlineMs ?? this.policy.deadlineMs) + allowanceMs, options.endsAt ?? Infinity),
      endsAt: options.endsAt,
      signal: options.signal,
      stream: given.stream ?? false,
      longPoll: pollS > 0,
    };
  }

  async #send(request: Outgoing & { readonly deadline: number }): Promise<Received> {
    const { deadline, signal } = request;
    const authorized = (stale?: string) => abortable(this.token(stale), deadline, "no token came", signal);
    let token = await authorized();
    let renewed = false;
    let failed: Received | ConnectionFailed | undefined;
    const attempts = new Attempts(this.policy, deadline, signal);
    for (let times = 1; ; times += 1) {
      const unsent = await this.#unsent(deadline, signal);
      if (unsent) throw failed ? attempts.error(failed) : unsent;
      const leftMs = deadline - performance.now();
      const timeoutMs = Math.min(request.timeoutMs, leftMs);
      const send = () => attempt(this.fetch, { ...request, timeoutMs }, token);
      const outcome = await observed(this.hooks, this.baseUrl, request, times, send).catch(failedConnection);
      if (!(outcome instanceof ConnectionFailed)) {
        this.limiter.observe(outcome);
        if (outcome.status < 400) return outcome;
        if (outcome.status === 401 && !renewed) {
          renewed = true;
          const stale = token;
          token = await authorized(stale);
          if (token !== stale) continue;
        }
      }
      const cutOff = outcome instanceof TimedOut && leftMs <= request.timeoutMs;
      if (failed && request.method === "GET" && isRefusal(failed) && cutOff) {
        throw attempts.error(failed); // it says why the call ended; a write may have taken effect since
      }
      await attempts.pause(outcome);
      failed = outcome;
    }
  }

  /** Wait until the next request may be sent; returns why it may not be sent before the deadline. */
  async #unsent(deadline: number, signal?: AbortSignal): Promise<DeadlineExceeded | undefined> {
    if (performance.now() >= deadline) return new DeadlineExceeded("the deadline of the call passed before the request was sent");
    const waitS = (await this.limiter.turn(deadline, signal)) / 1000;
    return waitS ? beyond(waitS) : undefined;
  }

  one<T>(method: string, path: string, given: Call): Promise<T> {
    return this.read(method, path, given, (received) => {
      const { data, answer } = decoded(received);
      return attach(data as T, answer);
    });
  }

  none(method: string, path: string, given: Call): Promise<void> {
    return this.read(method, path, given, (received) => {
      if (received.status !== 204) throw unexpected(received);
    });
  }

  batch<T>(method: string, path: string, given: Call): Promise<Batch<T>> {
    return this.read(method, path, given, (received) => {
      const { data, answer } = decoded(received, Array.isArray);
      return new Batch(data as Item<T>[], answer);
    });
  }

  pages<T>(path: string, options: AnyOptions): Pages<T> {
    return new Pages(() => {
      const timed = begun(options);
      return async (changes) => {
        const { data, answer } = decoded(await this.call("GET", path, { options: { ...timed, ...changes } }), Array.isArray);
        return new Page(data as T[], answer);
      };
    });
  }

  export<T>(path: string, options: AnyOptions & { cursor?: string | undefined }): Export<T> {
    return new Export(() => {
      const timed = begun(options);
      const open = (cursor: string | undefined) => this.lines(path, "application/x-ndjson", { ...timed, cursor } as AnyOptions, true);
      const openCsv = () => this.parts(path, "text/csv", timed);
      return { open, openCsv, retries: this.policy.retries, endsAt: timed.endsAt, signal: timed.signal };
    }, options.cursor);
  }

  /** The body of a long response, as it arrives. */
  async *parts(path: string, accept: string, options: AnyOptions, checkpoints = false): AsyncGenerator<Uint8Array, void> {
    const received = await this.call("GET", path, { accept, options, stream: true, checkpoints });
    if (!received.stream) throw unexpected(received);
    const mediaType = received.headers.get("content-type") ?? "no content type";
    if (received.status !== 200 || mediaType.split(";")[0]?.trim().toLowerCase() !== accept) {
      await received.stream.return();
      throw new UnexpectedAnswer(`${received.status} with ${mediaType} instead of ${accept}`, received.status, "");
    }
    yield* received.stream;
  }

  /** The lines of a long response, as they arrive; only a newline ends a line. */
  async *lines(path: string, accept: string, options: AnyOptions, checkpoints = false): AsyncGenerator<string, void> {
    const decoder = new TextDecoder();
    let partial = "";
    for await (const part of this.parts(path, accept, options, checkpoints)) {
      const lines = (partial + decoder.decode(part, { stream: true })).split("\n");
      partial = lines.pop() ?? "";
      yield* lines.filter(Boolean);
    }
    if (partial) yield partial;
  }
}

function beyond(waitS: number): DeadlineExceeded {
  const message = `the service asked to wait ${waitS.toPrecision(3)} s more, which is beyond the deadline of the call`;
  return new DeadlineExceeded(message, waitS);
}

function decoded(received: Received, fits: (data: unknown) => boolean = () => true): { data: unknown; answer: Answer } {
  if (received.status === 304) throw new NotModified(new Answer(304, received.headers, {}, ""));
  const envelope = received.status < 300 ? jsonObject(received.text) : null;
  if (!envelope || !("data" in envelope) || !fits(envelope["data"])) throw unexpected(received);
  const meta = (envelope["meta"] ?? {}) as Record<string, unknown>;
  return { data: envelope["data"], answer: new Answer(received.status, received.headers, meta, received.text) };
}

export function unexpected(received: Received): UnexpectedAnswer {
  const shown = excerpt(received.text);
  return new UnexpectedAnswer(`${received.status} with an unexpected body: ${shown}`, received.status, shown);
}

/** A part of the API; the generated calls are in its subclasses. */
export class Resource {
  constructor(protected readonly connection: Connection) {}
}
