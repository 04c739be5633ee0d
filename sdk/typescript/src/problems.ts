/** Turns an error response into an error. */
import { ApiError, ServiceFailed } from "./errors.js";
import { byCode, byStatus } from "./generated/codes.js";
import type { Received } from "./transport.js";

/** The longest part of an unexpected body that an error shows. */
const SHOWN = 200;

export function excerpt(text: string): string {
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}

/** The JSON object in a body; null if the body is something else, such as a page of a proxy. */
export function jsonObject(text: string): Record<string, unknown> | null {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null && !Array.isArray(body) ? (body as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** The error for a response with status 400 or more. */
export function refusal(received: Received): ApiError {
  const { status } = received;
  const problem = jsonObject(received.text) ?? {
    detail: `the response is not a problem document: ${excerpt(received.text) || "it is empty"}`,
    request_id: received.headers.get("x-request-id"),
  };
  const code = problem["code"];
  const known = typeof code === "string" && Object.hasOwn(byCode, code) ? byCode[code] : undefined;
  const kind = known ?? byStatus[status] ?? (status >= 500 ? ServiceFailed : ApiError);
  return new kind(status, problem, retryAfterS(received.headers));
}

/** The `Retry-After` header, given as seconds or as a date, in seconds from now. */
export function retryAfterS(headers: Headers): number | undefined {
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const at = /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000);
}
