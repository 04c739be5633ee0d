/** Types that the generated modules use. */

/** One of these values, or one that a later release adds. */
export type Open<T extends string | number | boolean> = T | (string & Record<never, never>);

/** A value or a list of values. */
export type OneOrMore<T> = T | readonly T[];

/** A time: a `Date`, or RFC 3339 text such as `2026-03-14T09:26:53Z`. */
export type Time = Date | string;

/** Bounds of a filter: `{ gte: "10.00", lt: "20.00" }`. */
export interface Range<T> {
  gte?: T | undefined;
  gt?: T | undefined;
  lte?: T | undefined;
  lt?: T | undefined;
}

/** A resource, or only its fields `F` if the call selects fields. */
export type Only<T, F extends keyof T> = [F] extends [never] ? T : Pick<T, F>;

/** A deleted resource in a list with `include_deleted: true`. */
export interface Tombstone {
  id: number;
  deleted_at: string;
  /** Missing only in responses of services before 3.2. */
  updated_at?: string;
  version: number;
}

/** A tombstone, if the call asks for deleted resources. */
export type IfDeleted<D extends boolean> = D extends true ? Tombstone : never;

/** Whether an item of a list with `include_deleted: true` is a tombstone. */
export function isTombstone(item: object): item is Tombstone {
  return "deleted_at" in item && item.deleted_at != null;
}
