/** Every call can be ended by its caller: by a signal, and by a deadline of its own. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type CallOptions, Client, ConnectionFailed, DeadlineExceeded, installations, WaitedTooLong } from "@stoa/client";
import { FakeTransport } from "@stoa/client/testing";

const ROW = '{"id":1}\n{"meta":{"cursor":"c1"}}\n';

/** A fake that answers later pages, feeds, tests of subscriptions and streams only in part or never. */
function stalling(stalled: () => void = () => undefined): typeof fetch {
  const fake = new FakeTransport();
  fake.answer("list_products", [{ id: 1 }, { id: 2 }]);
  fake.answer("get_product_import", { finished_at: null, status: "running" });
  return async (input, init) => {
    const request = new Request(input, init);
    const signal = init?.signal;
    if (request.headers.get("accept") === "application/x-ndjson") {
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode(ROW));
          signal?.addEventListener("abort", () => controller.error(signal.reason));
          setTimeout(stalled);
        },
      });
      return new Response(body, { headers: { "content-type": "application/x-ndjson" } });
    }
    if (!/cursor=|wait=|\/test|\/products\/9|installations/.test(request.url)) return fake.fetch(input, init);
    return new Promise((_, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason));
      setTimeout(stalled);
    });
  };
}

async function drained(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

const CALLS: Record<string, (client: Client, options: CallOptions) => Promise<unknown>> = {
  "a call": (client, options) => client.products.get(9, options),
  "a write": (client, options) => client.products.update(9, { name: "Mug" }, options),
  "a list": (client, options) => drained(client.products.list({ limit: 1, ...options })),
  "an export": (client, options) => drained(client.products.export(options)),
  "a test of a subscription": (client, options) => client.webhooks.sendTest(1, undefined, options),
  "a feed": (client, options) => drained(client.webhooks.deliveries.feed(1, options)),
  "any request": (client, options) => client.request("GET", "/products/9", options),
};

for (const [name, call] of Object.entries(CALLS)) {
  test(`a signal ends ${name}, and frees its place`, async () => {
    let stop = new AbortController();
    const client = new Client("https://store.example", { token: "t", concurrency: 1, fetch: stalling(() => stop.abort(new Error("enough"))) });
    for (let times = 0; times < 3; times += 1) {
      stop = new AbortController();
      await assert.rejects(call(client, { signal: stop.signal }), /enough/);
    }
    assert.equal((await client.products.get(1)).id, 1);
  });

  test(`a deadline ends ${name}`, async () => {
    const client = new Client("https://store.example", { token: "t", fetch: stalling() });
    // On a busy machine the deadline may pass before a later request is sent.
    await assert.rejects(call(client, { deadlineMs: 200 }), (error) => error instanceof ConnectionFailed || error instanceof DeadlineExceeded);
  });
}

test("a token that fails after its call was aborted does not end the program", async () => {
  let failed = false;
  const token = async (): Promise<string> => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    failed = true;
    throw new Error("no token"); // without a handler, the test fails
  };
  const client = new Client("https://store.example", { token, fetch: stalling() });
  await assert.rejects(client.products.get(1, { signal: AbortSignal.abort(new Error("enough")) }), /enough/);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.ok(failed);
});

test("a signal ends the iteration over installations", async () => {
  const stop = new AbortController();
  const options = { authUrl: "https://store.example/oauth/token", clientId: "a", clientSecret: "b", signal: stop.signal };
  await assert.rejects(drained(installations({ ...options, fetch: stalling(() => stop.abort(new Error("enough"))) })), /enough/);
});

test("a signal that is aborted while a row is handled ends the export", async () => {
  const stop = new AbortController();
  const client = new Client("https://store.example", { token: "t", fetch: stalling() });
  const rows: number[] = [];
  const reading = async () => {
    for await (const row of client.products.export({ signal: stop.signal })) {
      rows.push(row.id);
      stop.abort(new Error("enough"));
    }
  };
  await assert.rejects(reading(), /enough/);
  assert.deepEqual(rows, [1]);
});

test("a deadline and a signal end the wait for an import", async () => {
  const client = new Client("https://store.example", { token: "t", fetch: stalling() });
  await assert.rejects(client.products.imports.wait("imp_1", { deadlineMs: 200 }), WaitedTooLong);
  await assert.rejects(client.products.imports.wait("imp_1", { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
});

test("a limit may be infinite", async () => {
  const fetch: typeof globalThis.fetch = (_url, init) =>
    new Promise((resolve, reject) => {
      init?.signal?.addEventListener("abort", () => reject(init.signal?.reason));
      setTimeout(() => resolve(Response.json({ data: { id: 1 } })), 50);
    });
  const client = new Client("https://store.example", { token: "t", fetch, retries: 0, timeoutMs: Infinity, deadlineMs: Infinity });
  assert.equal((await client.products.get(1)).id, 1);
  assert.equal((await client.products.get(1, { timeoutMs: Infinity })).id, 1);
});

test("a page after the deadline of its iteration is not requested", async () => {
  const fake = new FakeTransport();
  fake.answer("list_products", [{ id: 1 }, { id: 2 }]);
  const reading = async () => {
    for await (const _ of fake.client().products.list({ limit: 1, deadlineMs: 200 })) await new Promise((resolve) => setTimeout(resolve, 250));
  };
  await assert.rejects(reading(), DeadlineExceeded);
  assert.equal(fake.requests.length, 1);
});
