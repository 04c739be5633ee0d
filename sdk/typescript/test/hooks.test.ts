/** Hooks see every attempt with its outcome, and nothing that a log must not contain. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, type RequestInfo, type ResponseInfo } from "@stoa/client";
import { FakeTransport } from "@stoa/client/testing";

function seeing() {
  const requests: RequestInfo[] = [];
  const responses: ResponseInfo[] = [];
  const hooks = { onRequest: (info: RequestInfo) => void requests.push(info), onResponse: (info: ResponseInfo) => void responses.push(info) };
  return { requests, responses, hooks };
}

test("every attempt is seen with its outcome", async () => {
  const fake = new FakeTransport();
  const { requests, responses, hooks } = seeing();
  fake.refuse("update_product", "overloaded", { times: 1 });
  fake.disconnect("update_product", { times: 1 });
  await fake.client(hooks).products.update(7, { name: "Mug" });
  assert.deepEqual(
    responses.map(({ operation, path, attempt, status, error, code, requestId }) => [operation, path, attempt, status ?? error, code, requestId]),
    [
      ["update_product", "/products/{product_id}", 1, 503, "overloaded", "req_test0000000000000001"],
      ["update_product", "/products/{product_id}", 2, "ConnectionFailed", undefined, undefined],
      ["update_product", "/products/{product_id}", 3, 200, undefined, "req_test0000000000000003"],
    ],
  );
  assert.deepEqual(requests.map(({ attempt, method }) => [attempt, method]), [[1, "PATCH"], [2, "PATCH"], [3, "PATCH"]]);
  assert.ok(responses.every((each) => each.durationMs >= 0 && each.baseUrl === "https://store.example"));
});

test("hooks receive no secret, no query and no body", async () => {
  const fake = new FakeTransport();
  const { requests, responses, hooks } = seeing();
  const client = new Client("https://shop.example.com", { clientId: "ci", clientSecret: "cs-hidden", fetch: fake.fetch, retries: 0, ...hooks });
  await client.customers.list({ email: "maya@example.com" }).page();
  await client.customers.create({ email: "maya@example.com" }, { idempotencyKey: "key-of-maya" });
  await assert.rejects(client.request("GET", "/unknown/maya@example.com"));
  assert.deepEqual(responses.map((each) => each.operation), ["request_token", "list_customers", "create_customer", undefined]);
  const shown = JSON.stringify([requests, responses]);
  for (const hidden of ["cs-hidden", "maya", "Bearer", '"test"']) assert.ok(!shown.includes(hidden), hidden);
});

test("a call that is aborted is seen, and a hook that fails does not fail the call", async (context) => {
  const { responses, hooks } = seeing();
  const stop = new AbortController();
  const fetch: typeof globalThis.fetch = (_url, init) =>
    new Promise((_, reject) => {
      init?.signal?.addEventListener("abort", () => reject(init.signal?.reason));
      stop.abort();
    });
  const client = new Client("https://shop.example.com", { token: "t", fetch, ...hooks });
  await assert.rejects(client.products.get(1, { signal: stop.signal }), { name: "AbortError" });
  assert.deepEqual(responses.map((each) => each.error), ["AbortError"]);
  const logged = context.mock.method(console, "error", () => undefined);
  const fail = () => {
    throw new Error("no metrics");
  };
  assert.equal((await new FakeTransport().client({ onRequest: fail, onResponse: fail }).products.get(7)).id, 7);
  assert.equal(logged.mock.callCount(), 2);
  const failLater = async () => fail(); // without a handler, its rejection would end the program
  assert.equal((await new FakeTransport().client({ onRequest: failLater, onResponse: failLater }).products.get(7)).id, 7);
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(logged.mock.callCount(), 4);
});
