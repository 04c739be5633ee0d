/** Whole lists as streams, which resume by themselves after a broken connection. */
import { ApiError, ConnectionFailed, Unauthorized } from "./errors.js";
import { refusal } from "./problems.js";
import { sleep } from "./sleep.js";

const LONGEST_PAUSE_MS = 8000;

/** How an iteration reads the stream. */
export interface Reading {
  /** Opens the stream after a cursor, and yields its lines. */
  readonly open: (cursor: string | undefined) => AsyncIterable<string>;
  /** Opens the list as CSV, and yields its parts. */
  readonly openCsv: () => AsyncIterable<Uint8Array>;
  readonly retries: number;
  readonly endsAt?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * All resources of a list, read as a stream with `for await`. It resumes after a broken connection, and throws if it cannot be
 * completed. Each iteration and each file begins again.
 */
export class Export<T> implements AsyncIterable<T> {
  readonly #begin: () => Reading;
  readonly #given: string | undefined;
  #cursor: string | undefined;
  #total: number | undefined;

  constructor(begin: () => Reading, cursor?: string) {
    this.#begin = begin;
    this.#given = cursor;
    this.#cursor = cursor;
  }

  /**
   * Where a later export goes on, if you pass it; it moves when you have got all resources of a batch, at most 1,000.
   *
   * An export that goes on where another one was interrupted repeats the resources of its last batch.
   */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  /** The number of resources in the list when the stream began; undefined until it has ended. */
  get total(): number | undefined {
    return this.#total;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for await (const { row } of this.#read()) yield row;
  }

  /**
   * The list as a file, in parts as they arrive: NDJSON, which resumes after a broken connection, or CSV, which does not. It throws
   * if it cannot be completed. In Node, `writeFile` of `node:fs/promises` takes it.
   */
  async *file(format: "ndjson" | "csv" = "ndjson"): AsyncGenerator<Uint8Array, void> {
    if (format === "csv") {
      yield* this.#begin().openCsv();
      return;
    }
    const encoder = new TextEncoder();
    for await (const { line } of this.#read()) yield encoder.encode(`${line}\n`);
  }

  async *#read(): AsyncGenerator<Read<T>, void> {
    const { open, retries, endsAt = Infinity, signal } = this.#begin();
    let cursor = (this.#cursor = this.#given);
    for (let failures = 0, complete = false; !complete; ) {
      // The rows after the last cursor; they come again if the connection breaks.
      let held: Read<T>[] = [];
      try {
        for await (const line of open(cursor)) {
          const row = JSON.parse(line) as Record<string, unknown>;
          const end = endOf(line, row);
          if (!end) {
            held.push({ line, row: row as T });
            continue;
          }
          const settled = held;
          held = [];
          if (settled.length) failures = 0;
          yield* settled;
          this.#cursor = cursor = (end["cursor"] as string | null) ?? cursor;
          if ("code" in end) throw refusal({ status: end["status"] as number, headers: new Headers(), text: line });
          this.#total = (end["total"] as number | undefined) ?? this.#total;
          complete = end["complete"] === true;
        }
        if (!complete) throw new ConnectionFailed("the stream ended without its last line");
      } catch (error) {
        failures += 1;
        const pauseMs = Math.min(500 * 2 ** (failures - 1), LONGEST_PAUSE_MS);
        if (!isTransient(error) || failures > retries || performance.now() + pauseMs >= endsAt) throw error;
        await sleep(pauseMs, signal);
      }
    }
  }

  /** All resources in one array. */
  async toArray(): Promise<T[]> {
    const all: T[] = [];
    for await (const each of this) all.push(each);
    return all;
  }
}

/** A line with the resource that it contains. */
interface Read<T> {
  readonly line: string;
  readonly row: T;
}

/** What a line says about the stream: the content of `meta`, or the problem that ended it; undefined for a resource. */
function endOf(line: string, row: Record<string, unknown>): Record<string, unknown> | undefined {
  if (line.startsWith('{"meta":')) return row["meta"] as Record<string, unknown>;
  return row["complete"] === false && "code" in row && "cursor" in row ? row : undefined;
}

function isTransient(error: unknown): boolean {
  if (error instanceof ConnectionFailed || error instanceof Unauthorized || error instanceof SyntaxError) return true;
  return error instanceof ApiError && error.retryable;
}
