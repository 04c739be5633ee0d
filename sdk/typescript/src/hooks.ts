/** Hooks for logs and metrics. They receive no token, no secret, no query and no body, so that they can log all they get. */
import { ConnectionFailed } from "./errors.js";
import type { OperationId } from "./generated/operations.js";
import { jsonObject } from "./problems.js";
import { PREFIX } from "./requests.js";
import { routeOf } from "./routes.js";
import type { Outgoing, Received } from "./transport.js";

/** An attempt that is about to be sent. */
export interface RequestInfo {
  /** The store. */
  readonly baseUrl: string;
  /** The `operationId`; undefined if the path is not one of an operation. */
  readonly operation: OperationId | "request_token" | undefined;
  readonly method: string;
  /** The path with its placeholders, such as `/products/{product_id}`, and without the query. */
  readonly path: string | undefined;
  /** 1 for the first attempt, 2 for the first retry. */
  readonly attempt: number;
}

/** An attempt that has ended, with a response or without one. */
export interface ResponseInfo extends RequestInfo {
  /** Until the response was complete or, if it is read as a stream, until it began. */
  readonly durationMs: number;
  readonly status?: number;
  /** The error code of a refusal. */
  readonly code?: string;
  readonly requestId?: string;
  /** Why no response came: `ConnectionFailed`, or the name of the reason for which the call was aborted. */
  readonly error?: string;
}

export interface Hooks {
  /** Called before each attempt, for logs and metrics. An error that it throws is only logged. */
  onRequest?: ((info: RequestInfo) => void) | undefined;
  /** Called after each attempt, with its status and duration. */
  onResponse?: ((info: ResponseInfo) => void) | undefined;
}

/** Carry out an attempt, with the hooks before and after it. */
export async function observed(
  hooks: Hooks,
  baseUrl: string,
  request: Outgoing,
  attempt: number,
  send: () => Promise<Received>,
): Promise<Received> {
  if (!hooks.onRequest && !hooks.onResponse) return send();
  const info: RequestInfo = { baseUrl, method: request.method, attempt, ...operationOf(baseUrl, request) };
  call(hooks.onRequest, info);
  const startedAt = performance.now();
  const ended = (outcome: Partial<ResponseInfo>): void =>
    call(hooks.onResponse, { ...info, ...outcome, durationMs: performance.now() - startedAt });
  try {
    const received = await send();
    const { status, headers, text } = received;
    const code = status >= 400 ? jsonObject(text)?.["code"] : undefined;
    const requestId = headers.get("x-request-id");
    ended({ status, ...(typeof code === "string" && { code }), ...(requestId !== null && { requestId }) });
    return received;
  } catch (error) {
    ended({ error: error instanceof ConnectionFailed ? "ConnectionFailed" : error instanceof Error ? error.name : "AbortError" });
    throw error;
  }
}

function operationOf(baseUrl: string, request: Outgoing): Pick<RequestInfo, "operation" | "path"> {
  const root = baseUrl + PREFIX;
  if (!request.url.startsWith(`${root}/`)) return { operation: "request_token", path: "/oauth/token" };
  const route = routeOf(request.method, request.url.slice(root.length).split("?")[0] ?? "");
  return { operation: route?.operation, path: route?.path }; // another path may contain anything
}

/** A hook that fails must not fail the call: a write may have taken effect. */
function call<T>(hook: ((info: T) => unknown) | undefined, info: T): void {
  const log = (error: unknown): void => console.error("a hook of the Stoa client failed", error);
  try {
    void Promise.resolve(hook?.(info)).catch(log); // a hook may be asynchronous
  } catch (error) {
    log(error);
  }
}
