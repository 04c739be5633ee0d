/** The responses around resources: status, headers and `meta`. */

/** The response in which a resource, a page or a batch came. */
export class Answer {
  constructor(
    readonly status: number,
    readonly headers: Headers,
    readonly meta: Readonly<Record<string, unknown>>,
    /** The body as it was received. */
    readonly text: string,
  ) {}

  /** Pass it as `ifMatch` or `ifNoneMatch`. */
  get etag(): string | null {
    return this.headers.get("etag");
  }

  get requestId(): string | null {
    return this.headers.get("x-request-id");
  }

  /** Whether this is the stored response to an earlier request with the same idempotency key. */
  get replayed(): boolean {
    return this.headers.get("idempotent-replayed") === "true";
  }

  /** How many more requests the rate limit allows now. */
  get requestsLeft(): number | null {
    const left = this.headers.get("x-ratelimit-remaining");
    return left !== null && /^\d+$/.test(left) ? Number(left) : null;
  }
}

// Beside the resources, so that these stay plain objects that can be compared, stored and sent back.
const answers = new WeakMap<object, Answer>();

export function attach<T>(resource: T, answer: Answer): T {
  if (typeof resource === "object" && resource !== null) answers.set(resource, answer);
  return resource;
}

/** The ETag of a resource that came in a response of its own; a part of a page or a batch has none. */
export function etagOf(resource: object): string | null {
  return answers.get(resource)?.etag ?? null;
}

/** The response in which a resource came: its ETag, request id, `meta` and headers. */
export function answerOf(resource: object): Answer {
  const answer = answers.get(resource);
  if (!answer) throw new TypeError("this object was part of another response, or is a copy");
  return answer;
}
