/** The fake transport answers from the examples, pages, fails as told, and records what was sent. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, codes, ConnectionFailed, sign, storeOf, verify } from "@stoa/client";
import { exampleAnswer, exampleEvent, FakeTransport, type OperationId } from "@stoa/client/testing";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

test("operations answer with their examples, and an answer replaces members", async () => {
  const fake = new FakeTransport();
  const client = fake.client();
  fake.answer("get_product", { name: "Mug" }, { times: 1 });
  assert.deepEqual(await client.products.get(31).then(({ id, name }) => [id, name]), [31, "Mug"]);
  assert.notEqual((await client.products.get(31)).name, "Mug");
  assert.deepEqual(Object.keys(await client.products.get(31, { fields: ["id", "name"] })), ["id", "name"]);
  assert.equal((await client.products.batch({ items: [{}, {}, {}] as never })).data.length, 3);
  assert.equal(await client.products.delete(31), undefined);
  assert.ok(exampleAnswer("list_webhooks"));
  assert.equal(fake.requests.length, 5);
});

test("lists are read in pages, as streams and as a feed", async () => {
  const fake = new FakeTransport();
  const client = fake.client();
  fake.answer("list_customers", [{ id: 1 }, { id: 2 }, { id: 3 }]);
  const ids = (rows: { id: number }[]) => rows.map((each) => each.id);
  assert.deepEqual(ids(await client.customers.list({ limit: 2 }).toArray()), [1, 2, 3]);
  assert.deepEqual(fake.requests.map((request) => request.query), [{ limit: "2" }, { limit: "2", cursor: "c2" }]);
  assert.deepEqual(ids(await client.customers.export().toArray()), [1, 2, 3]);
  const types: string[] = [];
  for await (const event of client.webhooks.deliveries.feed(9, { wait: 0 })) types.push(event.type);
  assert.equal(types.length, 1);
});

test("an operation fails with the codes that it has, and with a broken connection", async () => {
  const fake = new FakeTransport();
  fake.refuse("create_product", "sku_taken", { times: 1, existing_id: 4 });
  const client = fake.client({ retries: 0 });
  await assert.rejects(client.products.create({ name: "Mug", price: "1.00" }), (error) => {
    assert.ok(error instanceof codes.SkuTaken);
    assert.equal(error.more["existing_id"], 4);
    return true;
  });
  await client.products.create({ name: "Mug", price: "1.00" });
  fake.disconnect("create_product");
  await assert.rejects(client.products.create({ name: "Mug", price: "1.00" }), ConnectionFailed);
  assert.throws(() => fake.refuse("get_product", "sku_taken"), /does not fail with sku_taken/);
  assert.throws(() => fake.refuse("get_product", "no_such_code"), /is not an error code/);
  assert.throws(() => fake.answer("get_prodct" as OperationId), /is not an operation/);
});

test("an app that makes its own client gets a token, and raw content is sent as it is", async () => {
  const fake = new FakeTransport();
  const client = new Client("https://shop.example.com", { clientId: "a", clientSecret: "b", fetch: fake.fetch });
  fake.answer("get_product_import", undefined, { content: '{"row":1}\n', headers: { "content-type": "application/x-ndjson" } });
  for await (const row of client.products.imports.rows("imp_1")) assert.equal(row.row, 1);
  assert.equal(fake.requests[0]?.headers.get("authorization"), "Bearer test");
});

test("a signed delivery passes the verification, with and without its store", async () => {
  const event = exampleEvent("product.updated");
  const plain = await sign(event, SECRET, { now: 1_700_000_000 });
  assert.equal((await verify(plain.body, plain.headers, SECRET, { now: 1_700_000_000 })).type, "product.updated");
  await assert.rejects(verify(plain.body, plain.headers, SECRET), /too far/);
  const ofApp = await sign(event, SECRET, { appSecret: true });
  assert.equal(await storeOf(ofApp.headers, SECRET), event.store?.id);
  assert.equal((await verify(ofApp.body, ofApp.headers, SECRET)).id, event.id);
});

test("an id from outside reaches no other resource", async () => {
  const fake = new FakeTransport();
  const client = fake.client();
  for (const id of ["../webhooks/9", "7/variants/8", "7?x=1", "7#"]) {
    await client.products.delete(id as never);
    const { operation, parameters } = fake.requests.at(-1) ?? {};
    assert.deepEqual([operation, parameters], ["delete_product", { product_id: id }]);
  }
  for (const id of ["", ".", ".."]) assert.throws(() => client.products.get(id as never), /is not an id/);
});

test("a number or a time that JSON cannot express clears no field", async () => {
  const fake = new FakeTransport();
  const client = fake.client();
  for (const weight of [Number.NaN, Infinity]) {
    await assert.rejects(client.products.update(7, { weight }), /weight is (NaN|Infinity); pass null to clear/);
    await assert.rejects(client.products.imports.create([{ sku: "MUG", weight }]), TypeError);
  }
  await assert.rejects(client.orders.update(7, { metadata: { at: new Date(Number.NaN) } } as never), /at is Invalid Date/);
  assert.deepEqual(fake.requests, []);
});

test("an invalid idempotency key is refused before anything is sent", async () => {
  const fake = new FakeTransport();
  const client = fake.client();
  for (const idempotencyKey of ["", "a b", "caf\u00e9", "a\nb", "a\n", "x".repeat(256)]) {
    await assert.rejects(client.products.create({ name: "Mug", price: "1.00" }, { idempotencyKey }), /1 to 255 visible ASCII characters/);
  }
  await client.products.delete(1, { idempotencyKey: "x".repeat(255) });
  assert.deepEqual(fake.requests.map(({ operation }) => operation), ["delete_product"]);
});

test("a request takes a path with and without its first slash", async () => {
  const fake = new FakeTransport();
  const client = fake.client();
  assert.deepEqual(await client.request("GET", "products"), await client.request("GET", "/products"));
  assert.deepEqual(fake.requests.map(({ operation }) => operation), ["list_products", "list_products"]);
});
