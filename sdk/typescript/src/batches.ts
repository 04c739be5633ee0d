/** The results of batches. */
import type { Answer } from "./answers.js";
import type { Fault } from "./errors.js";
import type { Open } from "./types.js";

/** Why an item of a batch failed. */
export interface ItemError {
  code: string;
  title: string;
  status: number;
  detail: string;
  errors?: Fault[];
}

/** The result of one item of a batch. */
export interface Item<T> {
  index: number;
  status: Open<"created" | "updated" | "unchanged" | "deleted" | "failed">;
  id: number | null;
  resource: T | null;
  error: ItemError | null;
}

/** The results of a batch, in the order in which the items were sent. */
export class Batch<T> implements Iterable<Item<T>> {
  constructor(
    readonly data: readonly Item<T>[],
    /** The response in which the batch came. */
    readonly answer: Answer,
  ) {}

  get meta(): Readonly<Record<string, unknown>> {
    return this.answer.meta;
  }

  get failures(): Item<T>[] {
    return this.data.filter((item) => item.status === "failed");
  }

  [Symbol.iterator](): Iterator<Item<T>> {
    return this.data[Symbol.iterator]();
  }
}
