/** The options of calls. */
import type { OneOrMore } from "./types.js";

/** The options of every call. */
export interface CallOptions {
  /** Cancels the call, including its retries and waits. */
  signal?: AbortSignal | undefined;
  /** How long one attempt may take; overrides the client's. */
  timeoutMs?: number | undefined;
  /**
   * How long the call may take with all its attempts and waits; overrides the client's. It bounds a whole iteration: all pages of
   * a list, an export with its resumptions, or a feed.
   */
  deadlineMs?: number | undefined;
}

/** The options of a write. */
export interface WriteOptions extends CallOptions {
  /** The identifier of the work, such as a row of your own queue. By default each call has its own random key. */
  idempotencyKey?: string | undefined;
}

/** A version, an ETag, or a resource that has a version. */
export type Version = number | string | { readonly version?: number };

export interface IfMatch {
  /** Write only if the resource still has this version; otherwise the call throws `codes.VersionConflict`. */
  ifMatch?: Version | undefined;
}

export interface IfNoneMatch {
  /** Read only if the resource has changed since this version; otherwise the call throws `NotModified`. */
  ifNoneMatch?: Version | undefined;
}

export interface UploadOptions {
  /** The format of the file, if neither its name nor its type tells. */
  mediaType?: "application/x-ndjson" | "text/csv" | "application/json" | undefined;
  /** How many seconds the service waits for the import to end before it answers. */
  waitS?: number | undefined;
}

export interface Fields<F> {
  /** Return only these fields of each resource. */
  fields?: OneOrMore<F> | undefined;
}

export interface Deleted<D extends boolean> {
  /** Also list deleted resources, as tombstones. */
  include_deleted?: D | undefined;
}

/** The options of any call; everything else in an options object is a query parameter. */
export interface AnyOptions extends WriteOptions, IfMatch, IfNoneMatch, UploadOptions {
  /** The deadline of the iteration that the call belongs to, by the clock of `performance`. */
  endsAt?: number | undefined;
}

/** The options of an iteration that begins now: its deadline is the same for all its calls. */
export function begun<T extends AnyOptions>({ deadlineMs, ...options }: T): Omit<T, "deadlineMs"> & { endsAt?: number | undefined } {
  return deadlineMs === undefined ? options : { ...options, endsAt: performance.now() + deadlineMs };
}

/** Separate the options of a call from its query parameters. */
export function separated(given: AnyOptions): [options: AnyOptions, query: Record<string, unknown>] {
  const { signal, timeoutMs, deadlineMs, endsAt, idempotencyKey, ifMatch, ifNoneMatch, mediaType, waitS, ...query } = given;
  return [{ signal, timeoutMs, deadlineMs, endsAt, idempotencyKey, ifMatch, ifNoneMatch, mediaType, waitS }, query];
}
