/** Ordinary calls: resources, lists, batches, imports, conditional reads, and the event feed. */
import assert from "node:assert/strict";
import { openAsBlob, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { answerOf, codes, errors, isTombstone, NotModified, WaitedTooLong } from "@stoa/client";
import { accounts, clientOf, recording } from "./setup.js";

const client = clientOf(accounts.main);

test("a product is created, read, changed and deleted", async () => {
  const made = await client.products.create({
    name: "Linen Shirt",
    price: "59.00",
    options: [{ name: "Size", values: ["S", "M"] }],
    variants: [
      { sku: "TS-S", option_values: { Size: "S" }, stock: { on_hand: 4 } },
      { sku: "TS-M", option_values: { Size: "M" }, price: "61.00" },
    ],
  });
  assert.deepEqual([made.name, made.price, made.version], ["Linen Shirt", "59.00", 1]);
  const read = await client.products.get(made.id, { include: "variants" });
  assert.deepEqual(read.variants?.map((variant) => variant.effective_price), ["59.00", "61.00"]);
  const changed = await client.products.update(made.id, { price: "55.00", description: null });
  assert.deepEqual([changed.price, changed.version], ["55.00", 2]);
  await client.products.delete(made.id);
  await assert.rejects(client.products.get(made.id), errors.NotFound);
});

test("fields select the members of the response and of its type", async () => {
  const made = await client.products.create({ name: "Mug", price: "12.50" }, { fields: ["id", "name"] });
  assert.deepEqual(Object.keys(made).sort(), ["id", "name"]);
  // @ts-expect-error - the price was not selected
  assert.equal(made.price, undefined);
  // @ts-expect-error - there is no such status
  await assert.rejects(client.products.create({ name: "Mug", price: "1.00", status: "gone" }), codes.ValidationFailed);
  // @ts-expect-error - there is no such filter
  await assert.rejects(client.products.list({ color: "red" }).page(), codes.UnknownParameter);
});

test("a list is read over all its pages, with ranges, times and metadata in its query", async () => {
  const items = Array.from({ length: 7 }, (_, n) => ({
    op: "create" as const,
    data: { name: `Page ${n}`, price: `${n + 1}.00`, tags: ["paged & more"], metadata: { "kind": "a b/c&d" } },
  }));
  const done = await client.products.batch({ items });
  assert.deepEqual([done.data.length, done.failures.length, done.answer.status], [7, 0, 200]);
  const query = { tag: "paged & more", limit: 3, sort: "-price" } as const;
  const names: string[] = [];
  for await (const product of client.products.list(query)) names.push(product.name);
  assert.deepEqual(names, items.map((item) => item.data.name).reverse());
  const sizes: number[] = [];
  for await (const page of client.products.list(query).pages()) sizes.push(page.data.length);
  assert.deepEqual(sizes, [3, 3, 1]);
  const page = await client.products.list({ ...query, price: { gte: "2.00", lt: "4.00" }, metadata: { kind: "a b/c&d" } }).page();
  assert.deepEqual([page.total, page.nextCursor, page.answer.status], [2, null, 200]);
  assert.match(page.answer.text, /^\{"data":\[/);
  assert.equal((await client.products.list({ created_at: { gt: new Date(Date.now() + 60_000) } }).toArray()).length, 0);
  const doomed = done.data[0]?.id ?? 0;
  await client.products.delete(doomed);
  const kept = await client.products.list({ include_deleted: true, updated_since: new Date(0) }).toArray();
  assert.deepEqual(kept.filter(isTombstone).some((each) => each.id === doomed), true);
});

test("a resource has the response it came in, and a write with the same key is replayed", async () => {
  const idempotencyKey = `once-${Date.now()}`;
  const made = await client.products.create({ name: "Once", price: "1.00" }, { idempotencyKey });
  assert.deepEqual([answerOf(made).status, answerOf(made).replayed], [201, false]);
  assert.match(answerOf(made).etag ?? "", /^"1/);
  assert.match(answerOf(made).requestId ?? "", /^req_/);
  const again = await client.products.create({ name: "Once", price: "1.00" }, { idempotencyKey });
  assert.deepEqual([again.id, answerOf(again).replayed], [made.id, true]);
  assert.throws(() => answerOf({ ...made }), TypeError);
});

test("conditional reads and writes compare versions", async () => {
  const made = await client.products.create({ name: "Versioned", price: "1.00", description: "Stoneware. ".repeat(200) });
  for (const known of [made, made.version, answerOf(made).etag ?? ""]) {
    await assert.rejects(client.products.get(made.id, { ifNoneMatch: known }), (error) => {
      assert.ok(error instanceof NotModified);
      assert.equal(error.answer.status, 304);
      assert.match(error.answer.etag ?? "", /^"1/);
      assert.match(error.answer.requestId ?? "", /^req_/);
      return true;
    });
  }
  const newer = await client.products.update(made.id, { price: "2.00" }, { ifMatch: made });
  assert.equal((await client.products.get(made.id, { ifNoneMatch: made })).version, newer.version);
  await assert.rejects(client.products.update(made.id, { price: "3.00" }, { ifMatch: made }), (error) => {
    assert.ok(error instanceof codes.VersionConflict);
    assert.equal(error.more["current_version"], newer.version);
    return true;
  });
});

test("a page and a batch have the response they came in", async () => {
  const page = await client.products.list({ limit: 1 }).page();
  const batch = await client.products.batch({
    mode: "independent",
    items: [
      { op: "create", data: { name: "First", price: "1.00", sku: "TS-ANSWER" } },
      { op: "create", data: { name: "Second", price: "1.00", sku: "TS-ANSWER" } },
    ],
  });
  assert.deepEqual([page.answer.status, batch.answer.status], [200, 207]);
  assert.deepEqual([batch.meta["failed"], batch.failures[0]?.error?.code], [1, "sku_taken"]);
  for (const { answer } of [page, batch]) {
    assert.match(answer.requestId ?? "", /^req_/);
    assert.ok((answer.requestsLeft ?? -1) >= 0);
    assert.equal(answer.headers.get("x-ratelimit-limit") !== null, true);
    assert.ok(answer.text.startsWith('{"data":['));
  }
});

test("a conditional read of a resource detects a change of metadata that only this app sees", async () => {
  const made = await client.customers.create({ email: "private@example.com", metadata: { level: "1" } });
  await assert.rejects(client.customers.get(made.id, { ifNoneMatch: made }), NotModified);
  const changed = await client.customers.update(made.id, { metadata: { level: "2" } });
  assert.equal(changed.version, made.version);
  assert.equal((await client.customers.get(made.id, { ifNoneMatch: made })).metadata?.["level"], "2");
});

test("every fault is listed with its pointer", async () => {
  await assert.rejects(client.products.create({ name: "", price: "much" }), (error) => {
    assert.ok(error instanceof codes.ValidationFailed && error instanceof errors.Unprocessable);
    assert.deepEqual(error.errors.map((fault) => fault.pointer).sort(), ["/name", "/price"]);
    assert.match(error.requestId, /^req_/);
    assert.match(error.message, /\/price/);
    return true;
  });
  await client.products.create({ name: "Taken", price: "1.00", sku: "TS-TAKEN" });
  await assert.rejects(client.products.create({ name: "Taken", price: "1.00", sku: "TS-TAKEN" }), codes.SkuTaken);
});

test("rows, files and compressed files are imported and reported", async () => {
  const rows = Array.from({ length: 30 }, (_, n) => ({ sku: `TSI-${n}`, name: `Mug ${n}`, price: n ? "1.00" : "much" }));
  const { seen, fetch } = recording(async (response, times) => {
    if (times === 1 && response.status === 202) throw new TypeError("the response was lost");
    return response;
  });
  const lossy = clientOf(accounts.main, { fetch });
  const job = await lossy.products.imports.create(rows, { waitS: 1 });
  const uploads = seen.filter((request) => request.method === "POST" && request.url.endsWith("/products/imports"));
  assert.equal(new Set(uploads.map((request) => request.headers.get("idempotency-key"))).size, 1);
  const done = await client.products.imports.wait(job, { withinMs: 30_000 });
  assert.deepEqual([done.status, done.counts.created, done.counts.failed], ["partially_succeeded", 29, 1]);
  const failed = [];
  for await (const row of client.products.imports.rows(done)) if (row.status === "failed") failed.push(row.errors[0]?.code);
  assert.deepEqual(failed, ["invalid_money"]);
  let csv = "";
  for await (const part of client.products.imports.failures(done)) csv += new TextDecoder().decode(part);
  assert.match(csv, /TSI-0/);

  const path = join(tmpdir(), `mugs-${process.pid}.csv.gz`);
  writeFileSync(path, gzipSync("sku,name,price\nTSI-0,Mug 0,2.00\n"));
  const file = await openAsBlob(path, { type: "text/csv" });
  const fixed = await client.products.imports.wait(await client.products.imports.create(file), { withinMs: 30_000 });
  assert.equal(fixed.counts.created, 1);
  await assert.rejects(client.products.imports.create(new Uint8Array([1])), /mediaType/);
  await assert.rejects(client.products.imports.create(new TextEncoder().encode("sku,prise\n"), { mediaType: "text/csv" }), codes.ValidationFailed);
  await assert.rejects(client.products.imports.get("imp_unknown"), errors.NotFound);
  assert.ok(WaitedTooLong.prototype instanceof Error);
});

test("a picture is uploaded from a file or bytes, also if the product changes meanwhile", async () => {
  const tile = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==", "base64");
  const made = await client.products.create({ name: "Tile", price: "4.00", images: [{ url: "https://a.example/b.jpg", alt: "Old" }] });
  const path = join(tmpdir(), `tile-${process.pid}`);
  writeFileSync(path, tile);
  const first = await client.products.images.upload(made.id, await openAsBlob(path), { alt: "A gray tile" });
  assert.deepEqual([first.id, first.position, first.width, first.status, first.alt], [2, 2, 1, "ready", "A gray tile"]);
  let changes = 0;
  const { fetch } = recording(async (response, times) => {
    if (response.url.endsWith(`/products/${made.id}`) && times <= changes) {
      changes -= 1;
      await client.products.update(made.id, { name: `Tile ${times}` });
    }
    return response;
  });
  const raced = clientOf(accounts.main, { fetch });
  changes = 1;
  await raced.products.images.upload(made.id, new Uint8Array(tile));
  const shown = await client.products.get(made.id);
  assert.deepEqual([shown.name, shown.images.map((image) => image.id), shown.images[0]?.alt], ["Tile 1", [1, 2, 3], "Old"]);
  await assert.rejects(client.products.images.upload(made.id, new TextEncoder().encode("Dear reader")), /is not a JPEG/);
});

test("an order is placed and shipped, and the feed reports it in order", async () => {
  const hook = await client.webhooks.create({ events: ["order.*"] });
  await client.products.create({ name: "Order Mug", price: "12.50", sku: "TS-ORDER", stock: { on_hand: 5 } });
  const order = await client.orders.create({ line_items: [{ sku: "TS-ORDER", quantity: 2 }], customer: { email: "ada@example.com" } });
  assert.deepEqual([order.status, order.total], ["pending", "25.00"]);
  await client.orders.updateStatus(order.id, { status: "processing" });
  const moved = await client.products.inventory.adjust({ reason: "damaged", items: [{ sku: "TS-ORDER", quantity: -1 }] });
  assert.equal(moved.data[0]?.resource?.on_hand_after, 4);
  const seen: string[] = [];
  let last = 0;
  for await (const event of client.webhooks.deliveries.feed(hook.id)) {
    assert.equal(event.sequence, last + 1);
    last = event.sequence;
    seen.push(event.type);
    if (event.type === "order.status_changed") {
      assert.equal(event.data?.status, "processing"); // the type of `data` follows from the type of the event
      break;
    }
  }
  assert.deepEqual(seen, ["order.created", "order.status_changed"]);
  const rest = [];
  for await (const event of client.webhooks.deliveries.feed(hook.id, { after: last, wait: 0 })) rest.push(event);
  assert.deepEqual(rest, []);
  await assert.rejects(
    (async () => {
      for await (const event of client.webhooks.deliveries.feed(hook.id, { after: last, signal: AbortSignal.timeout(200) })) void event;
    })(),
    { name: "TimeoutError" },
  );
});

test("any path can be called, and another store needs its own installation", async () => {
  const made = (await client.request("POST", "/products", { body: { name: "Raw", price: "1.00" } })) as { data: { id: number } };
  assert.equal(((await client.request("GET", `/products/${made.data.id}`)) as { data: { name: string } }).data.name, "Raw");
  await assert.rejects(client.at(accounts.other.baseUrl).products.list().page(), codes.AppNotInstalled);
});
