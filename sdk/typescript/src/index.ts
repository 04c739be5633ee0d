/**
 * A typed client for the Stoa app API: tokens, retries, pagination, imports, webhooks and the event feed.
 *
 * @packageDocumentation
 */
export { Answer, answerOf } from "./answers.js";
export { Batch, type Item, type ItemError } from "./batches.js";
export { Client, type ClientOptions } from "./client.js";
export * as errors from "./errors.js";
export {
  ApiError,
  ConnectionFailed,
  DeadlineExceeded,
  type Fault,
  InstallRefused,
  NotModified,
  SignatureRefused,
  StoaError,
  TokenRefused,
  UnexpectedAnswer,
  WaitedTooLong,
} from "./errors.js";
export { Export } from "./exports.js";
export type { FeedOptions } from "./feed.js";
export * as codes from "./generated/codes.js";
export type { EventData } from "./generated/events.js";
export type * as inputs from "./generated/inputs.js";
export type * as models from "./generated/models.js";
export type { Hooks, RequestInfo, ResponseInfo } from "./hooks.js";
export type { RowReport } from "./imports.js";
export {
  type CompletedInstall,
  type Installation,
  installations,
  type InstallationsOptions,
  verifyInstall,
} from "./installs.js";
export type { CallOptions, Version, WriteOptions } from "./options.js";
export { Page, Pages } from "./pages.js";
export { PrivateKey, type PrivateKeySource } from "./private-keys.js";
export type { TokenSource } from "./tokens.js";
export { VERSION } from "./transport.js";
export { isTombstone, type Tombstone } from "./types.js";
export type { Upload } from "./uploads.js";
export {
  check,
  type Event,
  type EventType,
  sign,
  type SignedDelivery,
  type SignOptions,
  storeOf,
  verify,
  type VerifyOptions,
} from "./webhooks.js";
