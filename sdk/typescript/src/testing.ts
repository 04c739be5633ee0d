/**
 * A fake transport for tests of apps: it answers from the examples of the API, without a service.
 *
 * A test can set the response or the error of an operation, and reads which requests the app has sent.
 *
 * @packageDocumentation
 */
import { Client, type ClientOptions } from "./client.js";
import { EXAMPLES } from "./generated/examples.js";
import { type OperationId, OPERATIONS } from "./generated/operations.js";
import { PREFIX } from "./requests.js";
import { routeOf } from "./routes.js";
import type { Event, EventType } from "./webhooks.js";

export type { OperationId } from "./generated/operations.js";

type Members = Readonly<Record<string, unknown>>;
type Row = Record<string, unknown>;
interface Example {
  readonly status: number;
  readonly codes: readonly string[];
  readonly body?: { readonly data: unknown; readonly meta: Members };
}
interface ExampleProblem {
  readonly status: number;
  readonly title: string;
  readonly retryable?: true;
  readonly usual?: true;
}
const { shared, problems, answers, events } = EXAMPLES as {
  shared: unknown[];
  problems: Record<string, ExampleProblem>;
  answers: Record<string, Example>;
  events: Record<string, unknown>;
};
const BASE_URL = "https://store.example";
const PAGE = 50;

/** The example payload of an event, such as `order.created`; sign it with `sign` to test a receiver. */
export function exampleEvent<T extends EventType>(type: T): Event<T> {
  if (!Object.hasOwn(events, type)) throw new TypeError(`${JSON.stringify(type)} is not an event`);
  return whole(events[type]) as Event<T>;
}

/** The example response body of an operation; undefined if it has none. */
export function exampleAnswer(operation: OperationId): unknown {
  return whole(exampleOf(operation).body);
}

/** A request that the app has sent. */
export interface RecordedRequest {
  readonly operation: OperationId;
  readonly method: string;
  readonly path: string;
  /** The values of the placeholders in the path, such as `product_id`. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** The decoded JSON, the text of a file, or undefined. */
  readonly body: unknown;
  readonly headers: Headers;
}

/** How often an operation answers so, and then as before; always by default. */
export interface Times {
  times?: number | undefined;
}

export interface AnswerOptions extends Times {
  status?: number | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  /** A raw body, such as CSV. */
  content?: string | undefined;
}

interface Plan extends AnswerOptions {
  readonly data?: Members | readonly Members[] | undefined;
  readonly problem?: Members & { readonly status: number };
  readonly broken?: true;
}

/** Answers every operation with its example, unless the test sets another response. */
export class FakeTransport {
  readonly requests: RecordedRequest[] = [];
  readonly #plans = new Map<OperationId, Plan[]>();

  /** A client that sends its requests to this transport. */
  client(options: ClientOptions = {}): Client {
    const token = options.clientId || options.token ? {} : { token: "test" };
    return new Client(BASE_URL, { ...token, ...options, fetch: this.fetch });
  }

  /**
   * Set what an operation answers: members of a resource, or a list of resources, which are read in pages. The members
   * replace those of the example.
   */
  answer(operation: OperationId, data?: Members | readonly Members[], options: AnswerOptions = {}): void {
    this.#plan(operation, { ...options, data });
  }

  /** Let an operation fail with an error code; `members` are added to the problem document. */
  refuse(operation: OperationId, code: string, { times, ...members }: Times & Members = {}): void {
    const problem = Object.hasOwn(problems, code) ? problems[code] : undefined;
    if (!problem) throw new TypeError(`${JSON.stringify(code)} is not an error code`);
    const { codes } = exampleOf(operation);
    if (!problem.usual && !codes.includes(code)) {
      throw new TypeError(`${operation} does not fail with ${code}, but with ${codes.join(", ")}`);
    }
    const { usual: _usual, ...shown } = problem;
    this.#plan(operation, { times, problem: { code, ...shown, ...members } });
  }

  /** Let the connection break before the response to an operation. */
  disconnect(operation: OperationId, { times }: Times = {}): void {
    this.#plan(operation, { times, broken: true });
  }

  requestsOf(operation: OperationId): RecordedRequest[] {
    return this.requests.filter((request) => request.operation === operation);
  }

  /** Pass it to a `Client` that your app makes. */
  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    init?.signal?.throwIfAborted();
    const request = new Request(input, { ...init, ...(init?.body instanceof Blob && { duplex: "half" }) } as RequestInit);
    const url = new URL(request.url);
    if (url.pathname.endsWith("/oauth/token")) return Response.json({ access_token: "test", expires_in: 3600, token_type: "Bearer" });
    const path = url.pathname.slice(url.pathname.indexOf(PREFIX) + PREFIX.length);
    const route = routeOf(request.method, path);
    if (!route) throw new TypeError(`no operation has the path ${request.method} ${path}`);
    const text = await request.text();
    const recorded: RecordedRequest = {
      operation: route.operation,
      method: request.method,
      path: route.path,
      parameters: Object.fromEntries(Object.entries(route.parameters).map(([name, value]) => [name, decodeURIComponent(value)])),
      query: Object.fromEntries(url.searchParams),
      body: text && request.headers.get("content-type") === "application/json" ? JSON.parse(text) : text || undefined,
      headers: request.headers,
    };
    this.requests.push(recorded);
    const plan = this.#next(route.operation);
    if (plan.broken) throw new TypeError("the fake transport broke the connection");
    const requestId = `req_test${String(this.requests.length).padStart(16, "0")}`;
    return plan.problem ? problemResponse(plan.problem, recorded, requestId) : success(plan, recorded, requestId);
  };

  #plan(operation: OperationId, plan: Plan): void {
    exampleOf(operation);
    const plans = this.#plans.get(operation) ?? [];
    const limited = plans.filter((each) => each.times !== undefined);
    const lasting = plan.times === undefined ? [plan] : [plan, ...plans.filter((each) => each.times === undefined)];
    this.#plans.set(operation, [...limited, ...lasting]); // what it answers always comes last
  }

  #next(operation: OperationId): Plan {
    const plans = this.#plans.get(operation) ?? [];
    const [first] = plans;
    if (first?.times === undefined) return first ?? {};
    first.times -= 1;
    if (first.times <= 0) plans.shift();
    return first;
  }
}

function exampleOf(operation: OperationId): Example {
  const example = Object.hasOwn(OPERATIONS, operation) ? answers[operation] : undefined;
  if (!example) throw new TypeError(`${JSON.stringify(operation)} is not an operation`);
  return example;
}

/** A copy of an example, with the objects that several examples share. */
function whole(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(whole);
  if (typeof value !== "object" || value === null) return value;
  if ("$shared" in value) return whole(shared[value.$shared as number]);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, whole(each)]));
}

function problemResponse(problem: Members & { readonly status: number }, request: RecordedRequest, requestId: string): Response {
  const type = `${BASE_URL}/problems/${String(problem["code"])}`;
  const body = { type, detail: problem["title"], instance: request.path, request_id: requestId, ...problem };
  const headers = new Headers({ "content-type": "application/problem+json", "x-request-id": requestId });
  // So that a test of retries does not wait.
  if (problem.status === 429 || problem.status === 503) headers.set("retry-after", "0");
  return new Response(JSON.stringify(body), { status: problem.status, headers });
}

function success(plan: Plan, request: RecordedRequest, requestId: string): Response {
  const example = exampleOf(request.operation);
  const init = { status: plan.status ?? example.status, headers: { "x-request-id": requestId, ...plan.headers } };
  if (plan.content !== undefined) return new Response(plan.content, init);
  if (!example.body) return new Response(null, init);
  const { data, meta } = whole(example.body) as { data: Row | Row[]; meta: Row };
  const items = (request.body as { items?: unknown[] } | undefined)?.items;
  if (Array.isArray(items) && plan.data === undefined) return Response.json(batch(data, items.length), init);
  if (Array.isArray(data)) {
    const rows = Array.isArray(plan.data) ? plan.data.map((each: Members) => ({ ...data[0], ...each })) : data;
    return "next_cursor" in meta && request.method === "GET" ? list(rows, meta, request, init) : Response.json({ data: rows, meta }, init);
  }
  const resource: Row = { ...requested(data, request), ...plan.data };
  const etag = "version" in resource ? { etag: `"${String(resource["version"])}"` } : {};
  return Response.json({ data: selected(resource, request), meta }, { ...init, headers: { ...etag, ...init.headers } });
}

/** The example with the id that the path names. */
function requested(data: Row, request: RecordedRequest): Row {
  const last = request.path.slice(request.path.lastIndexOf("/") + 1);
  if (!last.startsWith("{") || !("id" in data)) return data;
  const value = request.parameters[last.slice(1, -1)];
  return { ...data, id: typeof data["id"] === "number" ? Number(value) : value };
}

function selected(row: Row, request: RecordedRequest): Row {
  const fields = request.query["fields"];
  return fields ? Object.fromEntries(Object.entries(row).filter(([name]) => fields.split(",").includes(name))) : row;
}

/** A result for each item that was sent. */
function batch(example: Row | Row[], sent: number): { data: Row[]; meta: Row } {
  const results = Array.isArray(example) ? example : [{ index: 0, status: "created", id: example["id"], resource: example, error: null }];
  const data = Array.from({ length: sent }, (_, index) => ({ ...results[Math.min(index, results.length - 1)], index }));
  return { data, meta: { total: sent, succeeded: sent, failed: 0 } };
}

/** A page of the list, or the whole list as a stream. */
function list(given: readonly Row[], meta: Row, request: RecordedRequest, init: { status: number; headers: Record<string, string> }): Response {
  const { query } = request;
  const after = Number(query["after"] ?? 0); // a feed continues after this event
  const rows = given.filter((row) => Number(row["sequence"] ?? after + 1) > after).map((row) => selected(row, request));
  const limit = Number(query["limit"] ?? PAGE);
  const start = Number((query["cursor"] ?? "c0").slice(1)) + limit * (Number(query["page"] ?? 1) - 1);
  if (request.headers.get("accept") === "application/x-ndjson") {
    const sent = rows.slice(start);
    const end = { total: rows.length, count: sent.length, cursor: `c${rows.length}`, complete: true };
    const lines = [...sent, { meta: end }].map((each) => `${JSON.stringify(each)}\n`).join("");
    return new Response(lines, { ...init, headers: { "content-type": "application/x-ndjson", ...init.headers } });
  }
  const next = start + limit < rows.length ? `c${start + limit}` : null;
  const previous = start ? `c${Math.max(0, start - limit)}` : null;
  const page = { total: rows.length, limit, page: Math.floor(start / limit) + 1, next_cursor: next, prev_cursor: previous };
  return Response.json({ data: rows.slice(start, start + limit), meta: { ...meta, ...page } }, init);
}
