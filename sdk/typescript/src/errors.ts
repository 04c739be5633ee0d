/** The errors of the client. Each code of the service has its own class in `codes`. */
import type { Answer } from "./answers.js";

/** The base class of all errors of this client. */
export class StoaError extends Error {
  /** The key of the write that failed, given or generated. The same call with this key is safe to repeat. */
  idempotencyKey?: string;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No complete response came, even after retries; `cause` is the last error. A write may have taken effect. */
export class ConnectionFailed extends StoaError {}

/** The call was not sent: it would have had to wait longer than its deadline. */
export class DeadlineExceeded extends StoaError {
  constructor(
    message: string,
    /** How long the call would have had to wait, in seconds; undefined if that is unknown. */
    readonly retryAfterS?: number,
  ) {
    super(message);
  }
}

/** The token endpoint refused the credentials or the requested scopes (RFC 6749). */
export class TokenRefused extends StoaError {
  constructor(
    readonly status: number,
    /** The code of RFC 6749, such as `invalid_client`. */
    readonly error: string,
    readonly description: string,
  ) {
    super(description ? `${error}: ${description}` : error);
  }
}

/** The resource still matches `ifNoneMatch`; `answer` is the response that says so. */
export class NotModified extends StoaError {
  constructor(readonly answer: Answer) {
    super("the resource has not changed");
  }
}

/** The response does not come from the service, but perhaps from a proxy. */
export class UnexpectedAnswer extends StoaError {
  constructor(
    message: string,
    readonly status: number,
    /** The start of the body. */
    readonly body: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The job did not end within the given time; it continues on the service. */
export class WaitedTooLong extends StoaError {}

/** The merchant refused to install the app. */
export class InstallRefused extends StoaError {}

/** The signature or the timestamp of a message is invalid; respond with 400. */
export class SignatureRefused extends StoaError {}

/** One fault of a request: where it is, and what would be valid. */
export interface Fault {
  /** A JSON pointer into the body, or the name of a parameter. */
  pointer: string;
  code: string;
  detail: string;
  meta?: Record<string, unknown> | null;
}

type Problem = Readonly<Record<string, unknown>>;
const MEMBERS = new Set(["type", "title", "status", "detail", "instance", "code", "request_id", "retryable", "errors"]);

/** The service refused a request (RFC 9457). Programs decide by the class or the `code`. */
export class ApiError extends StoaError {
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  /** The page that explains the code. */
  readonly type: string;
  /** Name it when you report a problem. */
  readonly requestId: string;
  readonly retryable: boolean;
  /** Every fault of the request. */
  readonly errors: readonly Fault[];
  /** Further members of this code, such as `existing_id` or `current_version`. */
  readonly more: Readonly<Record<string, unknown>>;

  constructor(
    readonly status: number,
    problem: Problem,
    /** The `Retry-After` of the response, in seconds. */
    readonly retryAfterS?: number,
  ) {
    const text = (name: string) => (typeof problem[name] === "string" ? problem[name] : "");
    const errors = Array.isArray(problem["errors"]) ? problem["errors"].filter(isFault) : [];
    const code = text("code") || String(status);
    const detail = text("detail") || text("title");
    const requestId = text("request_id");
    const lines = [`${status} ${code}: ${detail}`, ...errors.map(sentence)];
    super(lines.join("\n  ") + (requestId ? ` (request ${requestId})` : ""));
    this.code = code;
    this.title = text("title");
    this.detail = detail;
    this.type = text("type");
    this.requestId = requestId;
    this.retryable = problem["retryable"] === true;
    this.errors = errors;
    this.more = Object.fromEntries(Object.entries(problem).filter(([name]) => !MEMBERS.has(name)));
  }
}

function isFault(given: unknown): given is Fault {
  const fault = given as Partial<Fault> | null;
  return typeof fault?.pointer === "string" && typeof fault.code === "string" && typeof fault.detail === "string";
}

function sentence({ pointer, detail, meta }: Fault): string {
  const similar = meta?.["did_you_mean"];
  return `${pointer ? `${pointer}: ` : ""}${detail}${similar ? ` (did you mean ${similar}?)` : ""}`;
}

/** The request is malformed. */
export class BadRequest extends ApiError {}

/** The token was refused, even after it was renewed. */
export class Unauthorized extends ApiError {}

/** The app may not do this on this store. */
export class Forbidden extends ApiError {}

/** The resource, or the store itself, does not exist. */
export class NotFound extends ApiError {}

/** The request conflicts with the current state. */
export class Conflict extends ApiError {}

/** The resource no longer matches `ifMatch`. */
export class PreconditionFailed extends ApiError {}

/** The request is larger than the endpoint accepts. */
export class TooLarge extends ApiError {}

/** The request is well-formed but invalid; `errors` lists every fault. */
export class Unprocessable extends ApiError {}

/** The rate limit was exceeded until the deadline. */
export class TooManyRequests extends ApiError {}

/** The service failed, even after all retries. */
export class ServiceFailed extends ApiError {}
