/** Bad input and bad networks: every failure is a typed error, and none is hidden. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { ApiError, Client, codes, ConnectionFailed, errors, TokenRefused, UnexpectedAnswer } from "@stoa/client";
import { accounts, clientOf, recording, serving } from "./setup.js";

const { main } = accounts;

test("wrong credentials are TokenRefused, without retries", async () => {
  const { seen, fetch } = recording();
  const wrong = clientOf(main, { clientSecret: "wrong", fetch });
  await assert.rejects(wrong.products.list().page(), (error) => {
    assert.ok(error instanceof TokenRefused);
    assert.deepEqual([error.status, error.error], [401, "invalid_client"]);
    return true;
  });
  assert.equal(seen.length, 1);
  await assert.rejects(new Client(main.baseUrl, { token: "stoa_at_wrong" }).products.list().page(), codes.InvalidToken);
});

test("a token may have fewer scopes than the app", async () => {
  const narrow = clientOf(main, { scopes: ["products:read"] });
  await narrow.products.list().page();
  await assert.rejects(narrow.products.create({ name: "Mug", price: "1.00" }), (error) => {
    assert.ok(error instanceof codes.InsufficientScope);
    assert.equal(error.more["required_scope"], "products:write");
    return true;
  });
});

test("a store that is gone or suspended is an error of its code", async () => {
  const gone = main.baseUrl.replace(/[^/]+$/, "gone");
  await assert.rejects(new Client(gone, { token: main.token }).products.list().page(), errors.NotFound);
  const { clientId, clientSecret } = main;
  await assert.rejects(new Client(gone, { clientId, clientSecret }).products.list().page(), (error) => {
    assert.ok(error instanceof TokenRefused);
    assert.equal(error.error, "invalid_target");
    return true;
  });
  await assert.rejects(clientOf(accounts.suspended).products.list().page(), errors.Forbidden);
});

test("a cut connection is retried if that is safe, with the same key, and takes effect once", async () => {
  const { seen, fetch } = recording(async (response, times) => {
    if (times === 1 && !response.url.includes("oauth")) throw new TypeError("terminated");
    return response;
  });
  const client = clientOf(main, { fetch });
  const made = await client.products.create({ name: "Cut", price: "1.00", sku: "TS-CUT" });
  const posts = seen.filter((request) => request.url.endsWith("/products"));
  assert.equal(new Set(posts.map((request) => request.headers.get("idempotency-key"))).size, 1);
  assert.equal(posts.length, 2);
  assert.equal((await client.products.list({ sku: "TS-CUT" }).page()).data[0]?.id, made.id);
});

test("a response that is cut in its body is ConnectionFailed after all attempts", async () => {
  let calls = 0;
  await serving(
    (_request, response) => {
      calls += 1;
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"data": [', () => response.destroy());
    },
    async (url) => {
      const client = new Client(url, { token: "t", retries: 1 });
      await assert.rejects(client.products.list().page(), (error) => {
        assert.ok(error instanceof ConnectionFailed);
        assert.match(error.message, /2 attempts/);
        assert.ok(error.cause instanceof Error);
        return true;
      });
    },
  );
  assert.equal(calls, 2);
});

test("an unreachable service, a slow one and a cancelled call", async () => {
  const nowhere = new Client("http://127.0.0.1:9", { token: "t", retries: 0 });
  await assert.rejects(nowhere.products.list().page(), ConnectionFailed);
  await serving(
    () => undefined,
    async (url) => {
      const slow = new Client(url, { token: "t", retries: 0, timeoutMs: 50 });
      await assert.rejects(slow.products.list().page(), /no complete response within 50 ms/);
      const reason = new Error("enough");
      const patient = new Client(url, { token: "t" });
      const abort = new AbortController();
      setTimeout(() => abort.abort(reason), 50);
      await assert.rejects(patient.products.get(1, { signal: abort.signal }), (error) => error === reason);
    },
  );
});

test("a 503 with Retry-After is repeated when the service asks, beyond the number of retries", async () => {
  const { seen, fetch } = recording((response, times) =>
    times <= 3 ? new Response("{}", { status: 503, headers: { "retry-after": "0" } }) : response,
  );
  const client = clientOf(main, { fetch, token: main.token, clientId: undefined, retries: 1 });
  assert.ok((await client.products.list().page()).total >= 0);
  assert.equal(seen.length, 4);
});

test("a Retry-After beyond the deadline is an error at once", async () => {
  const busy = { code: "rate_limited", title: "Too many requests", retryable: true };
  const { seen, fetch } = recording(() => Response.json(busy, { status: 429, headers: { "retry-after": "120" } }));
  const client = clientOf(main, { fetch, token: main.token, clientId: undefined });
  await assert.rejects(client.products.list().page(), (error) => {
    assert.ok(error instanceof codes.RateLimited && error instanceof errors.TooManyRequests);
    assert.equal(error.retryAfterS, 120);
    return true;
  });
  assert.equal(seen.length, 1);
});

test("a service that refuses for ever without a pause is not flooded until the deadline", async () => {
  let sent = 0;
  const fetch = async () => {
    sent += 1;
    return Response.json({ code: "rate_limited" }, { status: 429, headers: { "retry-after": "0" } });
  };
  const client = new Client("http://localhost", { fetch, token: "t", deadlineMs: 1000 });
  await assert.rejects(client.products.list().page(), codes.RateLimited);
  assert.ok(sent <= 6, `${sent} requests`);
});

test("a body that is not JSON is an unexpected answer, or the error of its status", async () => {
  const pages: [number, string, typeof UnexpectedAnswer | typeof ApiError][] = [
    [200, "<html>welcome</html>", UnexpectedAnswer],
    [200, '{"welcome": 1}', UnexpectedAnswer],
    [200, "", UnexpectedAnswer],
    [302, "", UnexpectedAnswer],
    [404, "<html>nothing here</html>", errors.NotFound],
    [418, "[]", ApiError],
    [502, "<html>bad gateway</html>", errors.ServiceFailed],
  ];
  for (const [status, text, kind] of pages) {
    const { fetch } = recording(() => new Response(text, { status, headers: { location: "http://127.0.0.1:9/" } }));
    const client = clientOf(main, { fetch, token: main.token, clientId: undefined, retries: 0 });
    await assert.rejects(client.products.get(1), (error) => {
      assert.ok(error instanceof kind, `${status}: ${error}`);
      assert.equal(error.status, status);
      assert.ok(error.message.includes(text.slice(0, 20)));
      return true;
    });
  }
  const html = { "content-type": "text/html" };
  for (const status of [200, 302]) {
    const { fetch: proxied } = recording(() => new Response("<html>login</html>", { status, headers: html }));
    const client = clientOf(main, { fetch: proxied, token: main.token, clientId: undefined, retries: 0 });
    const first = async (parts: AsyncIterable<unknown>): Promise<void> => {
      for await (const part of parts) assert.fail(`received ${part}`);
    };
    await assert.rejects(client.products.delete(1), UnexpectedAnswer);
    await assert.rejects(client.request("GET", "/products"), UnexpectedAnswer);
    await assert.rejects(first(client.products.imports.rows("imp_1")), UnexpectedAnswer);
    await assert.rejects(first(client.products.imports.failures("imp_1")), UnexpectedAnswer);
  }
  const { fetch } = recording(() => new Response("<html>login</html>"));
  await assert.rejects(clientOf(main, { fetch }).products.list().page(), /not a token endpoint/);
});

test("concurrent calls share one token, and one renewal after it is refused", async () => {
  const { seen, fetch } = recording((response, times) =>
    // The first twenty reads are refused, as after a revocation.
    response.url.includes("/products") && times <= 20 ? new Response('{"code":"invalid_token"}', { status: 401 }) : response,
  );
  const client = clientOf(main, { fetch, concurrency: 32 });
  await Promise.all(Array.from({ length: 20 }, () => client.products.list().page()));
  assert.equal(seen.filter((request) => request.url.includes("oauth")).length, 2);
});

test("300 calls of 12 concurrent tasks succeed under the rate limit", async () => {
  const refused: number[] = [];
  const { seen, fetch } = recording((response) => {
    if (response.status === 429) refused.push(performance.now());
    return response;
  });
  const client = clientOf(accounts.narrow, { fetch });
  const totals = await Promise.all(
    Array.from({ length: 12 }, async () => {
      let sum = 0;
      for (let n = 0; n < 25; n += 1) sum += (await client.products.list().page()).data.length + 1;
      return sum;
    }),
  );
  assert.deepEqual(totals, Array<number>(12).fill(25));
  assert.equal(seen.length, 300 + refused.length + 1);
  // One refusal holds all calls back, so there are far fewer refusals than calls that had to wait.
  assert.ok(refused.length <= 60, `${refused.length} refusals`);
});

test("options are checked before anything is sent, and nothing shows a secret", () => {
  for (const url of ["", "localhost:8000/stores/demo", "ftp://shop.example.com"]) {
    assert.throws(() => new Client(url, { token: "t" }), /baseUrl must start with/);
    assert.throws(() => new Client("https://a.example", { clientId: "a", clientSecret: "b", authUrl: url || "/t" }), /authUrl/);
  }
  for (const options of [{}, { clientId: "x" }, { clientId: "x", clientSecret: "y", token: "z" }]) {
    assert.throws(() => new Client("http://localhost", options), /clientId and privateKey, or a token/);
  }
  assert.throws(() => Client.fromEnvironment({}, {}), /STOA_CLIENT_ID/);
  const shown = inspect(clientOf(main), { depth: null, showHidden: true });
  assert.ok(!shown.includes(main.clientSecret) && !JSON.stringify(clientOf(main)).includes(main.clientSecret));
});
