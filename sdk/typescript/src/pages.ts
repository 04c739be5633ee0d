/** Lists that are fetched page by page, as far as they are read. */
import type { Answer } from "./answers.js";
import { UnexpectedAnswer } from "./errors.js";

/** One page of a list. */
export class Page<T> implements Iterable<T> {
  constructor(
    readonly data: readonly T[],
    /** The response in which the page came. */
    readonly answer: Answer,
  ) {}

  get meta(): Readonly<Record<string, unknown>> {
    return this.answer.meta;
  }

  /** The exact number of resources on all pages. */
  get total(): number {
    return this.meta["total"] as number;
  }

  get nextCursor(): string | null {
    return (this.meta["next_cursor"] as string | null | undefined) ?? null;
  }

  get prevCursor(): string | null {
    return (this.meta["prev_cursor"] as string | null | undefined) ?? null;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.data[Symbol.iterator]();
  }
}

/** The cursors of one iteration. A repeated one would return the same pages for ever. */
export class Cursors {
  readonly #followed = new Set<string>();

  /** The cursor of the next page. Throws `UnexpectedAnswer` if its page was read before. */
  follow(cursor: string | null): string | null {
    if (cursor === null) return null;
    if (this.#followed.has(cursor)) throw new UnexpectedAnswer("the service repeated the cursor of an earlier page", 200, cursor);
    this.#followed.add(cursor);
    return cursor;
  }
}

/** The resources of a list over all its pages, to be read with `for await`. Nothing is sent before. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #begin: () => (changes: Record<string, unknown>) => Promise<Page<T>>;

  /** `begin` is called when an iteration begins, and returns what reads its pages. */
  constructor(begin: () => (changes: Record<string, unknown>) => Promise<Page<T>>) {
    this.#begin = begin;
  }

  /** Only the first page, with the exact `total`. */
  page(): Promise<Page<T>> {
    return this.#begin()({});
  }

  /** All pages. */
  async *pages(): AsyncGenerator<Page<T>, void> {
    const cursors = new Cursors();
    const read = this.#begin();
    let page = await read({});
    yield page;
    for (let cursor = cursors.follow(page.nextCursor); cursor; cursor = cursors.follow(page.nextCursor)) {
      page = await read({ cursor, page: undefined });
      yield page;
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for await (const page of this.pages()) yield* page.data;
  }

  /** The first resource, or undefined. */
  async first(): Promise<T | undefined> {
    return (await this.page()).data[0];
  }

  /** All resources in one array. */
  async toArray(): Promise<T[]> {
    const all: T[] = [];
    for await (const each of this) all.push(each);
    return all;
  }
}
