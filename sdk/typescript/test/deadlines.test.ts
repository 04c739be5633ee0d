/** Every call and every iteration ends, and the error of a write says how to repeat it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, type ClientOptions, codes, ConnectionFailed, DeadlineExceeded, errors, installations, StoaError, UnexpectedAnswer } from "@stoa/client";
import { accounts, clientOf, recording, serving } from "./setup.js";

const { main } = accounts;

/** A client whose service is a function. */
function answering(answer: (request: Request) => Response, options: ClientOptions = {}): Client {
  const fetch = async (url: RequestInfo | URL, init?: RequestInit) => answer(new Request(url, init));
  return new Client("http://localhost", { token: "t", retries: 0, fetch, ...options });
}

async function drained(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

test("a response that never ends is ConnectionFailed at the limit of the attempt, and at the deadline of the call", async () => {
  await serving(
    (_request, response) => {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      const timer = setInterval(() => response.write("["), 100);
      response.on("close", () => clearInterval(timer));
    },
    async (url) => {
      const client = new Client(url, { token: "t", retries: 1, timeoutMs: 500 });
      await assert.rejects(client.products.get(1), /no complete response within 500 ms.*2 attempts/);
      await assert.rejects(drained(client.products.imports.rows("imp_1")), ConnectionFailed);
      // The time of an upload is added, also of JSON.
      const long = { name: "Mug", price: "1.00", description: "x".repeat(50_000) };
      await assert.rejects(client.products.create(long), /no complete response within 1000 ms/);
      const persistent = new Client(url, { token: "t", retries: 1000, timeoutMs: 300, deadlineMs: 1000 });
      await assert.rejects(persistent.products.get(1), ConnectionFailed);
      const tokenless = new Client(url, { clientId: "a", clientSecret: "b", deadlineMs: 300 });
      await assert.rejects(tokenless.products.delete(1, { idempotencyKey: "k-1" }), (error) => {
        assert.ok(error instanceof DeadlineExceeded);
        assert.equal(error.idempotencyKey, "k-1");
        return true;
      });
    },
  );
});

test("a long Retry-After of one call does not stop the others", async () => {
  const busy = () => Response.json({ code: "overloaded", retryable: true }, { status: 503, headers: { "retry-after": "3600" } });
  const answers = [busy, () => Response.json({ data: {} })];
  const client = answering(() => (answers.shift() ?? busy)());
  await assert.rejects(client.products.get(1), (error) => {
    assert.ok(error instanceof errors.ServiceFailed);
    assert.equal(error.retryAfterS, 3600);
    return true;
  });
  await client.products.get(1);
});

test("a call that would wait beyond its deadline says how long", async () => {
  let sent = 0;
  const refuse = () => {
    sent += 1;
    const headers = { "retry-after": "50", "x-ratelimit-remaining": "0" };
    return Response.json({ code: "rate_limited", retryable: true }, { status: 429, headers });
  };
  const client = answering(refuse, { deadlineMs: 10_000 });
  await assert.rejects(client.products.get(1), codes.RateLimited);
  await assert.rejects(client.products.get(1), (error) => {
    assert.ok(error instanceof DeadlineExceeded);
    assert.ok(error.retryAfterS !== undefined && error.retryAfterS > 10 && error.retryAfterS < 51);
    return true;
  });
  assert.equal(sent, 1);
});

test("a deadline that ends an attempt after a refusal", async () => {
  const refuse = () => Response.json({ code: "rate_limited" }, { status: 429, headers: { "retry-after": "0" } });
  const client = () => {
    let sent = 0;
    const fetch = (_url: RequestInfo | URL, init?: RequestInit) =>
      sent++
        ? new Promise<Response>((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("aborted"))))
        : Promise.resolve(refuse());
    return new Client("http://localhost", { token: "t", fetch, deadlineMs: 2000 });
  };
  await Promise.all([
    assert.rejects(client().products.get(1), codes.RateLimited), // it says why
    assert.rejects(client().products.delete(1), ConnectionFailed), // it may have taken effect
  ]);
});

test("a deadline that passes between two attempts throws the error of the first", async () => {
  const clock = performance.now;
  try {
    const client = answering(
      () => {
        setTimeout(() => (performance.now = () => clock.call(performance) + 3_600_000), 1); // during the pause
        throw new TypeError("lost");
      },
      { retries: 4 },
    );
    await assert.rejects(client.products.delete(1), ConnectionFailed); // DeadlineExceeded would say that nothing was sent
  } finally {
    performance.now = clock;
  }
});

test("a call that finds no place until its deadline fails", async () => {
  let arrive = (): void => undefined;
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  await serving(
    () => arrive(),
    async (url) => {
      const client = new Client(url, { token: "t", retries: 0, concurrency: 1, deadlineMs: 5_000 });
      const stop = new AbortController();
      // Its deadline is later by the time that it asks the service to wait.
      const first = client.products.imports.create([{ sku: "A" }], { waitS: 60, signal: stop.signal });
      const ended = assert.rejects(first, /enough/);
      await arrived;
      await assert.rejects(client.products.get(1), DeadlineExceeded);
      stop.abort(new Error("enough"));
      await ended;
    },
  );
});

test("a repeated cursor and a repeated event end the iteration with an error", async () => {
  const next: Record<string, string> = { "": "a", a: "b", b: "a" };
  const circle = (request: Request) => {
    const cursor = new URL(request.url).searchParams.get("cursor") ?? "";
    return Response.json({ data: [], meta: { total: 1, next_cursor: next[cursor] } });
  };
  await assert.rejects(drained(answering(circle).products.list()), /repeated the cursor/);
  const fetch = async (url: RequestInfo | URL, init?: RequestInit) => circle(new Request(url, init));
  const every = installations({ authUrl: "http://localhost/oauth/token", clientId: "a", clientSecret: "b", fetch });
  await assert.rejects(drained(every), /repeated the cursor/);
  const same = () => Response.json({ data: [{ sequence: 7, payload: { id: "1", type: "product.created" } }], meta: {} });
  await assert.rejects(drained(answering(same).webhooks.deliveries.feed(1)), /sequence 7 after 7/);
});

test("every error of a write carries its idempotency key, which repeats it safely", async () => {
  const bodies: [number, string][] = [[201, '{"data": {"id": '], [200, "<html>log in</html>"], [502, ""], [422, '{"code": "validation_failed"}']];
  for (const [status, text] of bodies) {
    let key: string | null = null;
    const client = answering((request) => {
      key = request.headers.get("idempotency-key");
      return new Response(text, { status });
    });
    const writes = [
      () => client.products.create({ name: "Mug", price: "1" }),
      () => client.products.delete(1),
      () => client.products.batch({ items: [] }),
      () => client.products.imports.create([{ sku: "A" }]),
      () => client.request("POST", "/products", { body: {} }),
    ];
    for (const write of writes) {
      await assert.rejects(write(), (error) => {
        assert.ok(error instanceof StoaError);
        assert.ok(key && error.idempotencyKey === key);
        return true;
      });
    }
    await assert.rejects(client.products.get(1), (error) => error instanceof StoaError && error.idempotencyKey === undefined);
  }
  const cut = recording((response, times) => (times === 1 && response.status === 201 ? new Response("{", { status: 201 }) : response));
  const client = clientOf(main, { fetch: cut.fetch, token: main.token, clientId: undefined });
  const lost = await client.products.create({ name: "Lost", price: "1.00", sku: "TS-LOST" }).catch((error: unknown) => error);
  assert.ok(lost instanceof UnexpectedAnswer);
  await client.products.create({ name: "Lost", price: "1.00", sku: "TS-LOST" }, { idempotencyKey: lost.idempotencyKey });
  assert.equal((await client.products.list({ sku: "TS-LOST" }).page()).total, 1);
});

test("a misspelled option is refused by the compiler and at run time", () => {
  // @ts-expect-error - no such option
  assert.throws(() => new Client("http://localhost", { token: "t", retires: 3 }), /unknown option "retires"/);
});
