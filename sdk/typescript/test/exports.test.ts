/** Exports: whole lists as streams, which resume after a broken connection and throw without their end. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, codes, ConnectionFailed } from "@stoa/client";
import { accounts, clientOf, serving } from "./setup.js";

const rows = [0, 1, 2, 3].map((id) => `${JSON.stringify({ id, name: `Mug ${id}` })}\n`);
const end = '{"meta":{"total":4,"count":4,"cursor":"end","complete":true}}\n';

/** What a client reads of a service that answers with these bodies, one for each request, and the cursors that it sent. */
async function read(bodies: { text: string; broken?: boolean }[]): Promise<[ids: number[], cursors: (string | null)[]]> {
  const cursors: (string | null)[] = [];
  const ids = await serving(
    (request, response) => {
      assert.equal(request.headers["prefer"], "checkpoints");
      cursors.push(new URL(request.url ?? "", "http://localhost").searchParams.get("cursor"));
      const body = bodies[cursors.length - 1] ?? { text: "" };
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      response.write(body.text, () => (body.broken ? response.destroy() : response.end()));
    },
    async (url) => {
      const client = new Client(url, { token: "stoa_at_x" });
      const ids: number[] = [];
      for await (const product of client.products.export({ fields: ["id", "name"] })) ids.push(product.id);
      return ids;
    },
  );
  return [ids, cursors];
}

test("a broken export resumes at its last checkpoint, and each row comes once", async () => {
  const first = { text: `${rows[0]}${rows[1]}{"meta":{"count":2,"cursor":"two"}}\n${rows[2]}`, broken: true };
  const [ids, cursors] = await read([first, { text: `${rows[2]}${rows[3]}${end}` }]);
  assert.deepEqual(ids, [0, 1, 2, 3]);
  assert.deepEqual(cursors, [null, "two"]);
});

test("an export that ends with a problem resumes, or throws it", async () => {
  const problem = (code: string, status: number, retryable: boolean): string =>
    `${JSON.stringify({ type: "t", title: "t", status, detail: "d", code, retryable, complete: false, cursor: "one" })}\n`;
  const [ids, cursors] = await read([
    { text: `${rows[0]}${problem("unavailable", 503, true)}` },
    { text: `${rows.slice(1).join("")}${end}` },
  ]);
  assert.deepEqual(ids, [0, 1, 2, 3]);
  assert.deepEqual(cursors, [null, "one"]);
  await assert.rejects(read([{ text: `${rows[0]}${problem("app_not_installed", 403, false)}` }]), codes.AppNotInstalled);
});

test("an export without its end throws", async () => {
  await assert.rejects(read([]), (error) => error instanceof ConnectionFailed && error.message.includes("without its last line"));
});

test("an export that resumes at a saved cursor loses no row", async () => {
  const body = `${rows[0]}${rows[1]}{"meta":{"count":2,"cursor":"two"}}\n${rows[2]}${rows[3]}${end}`;
  const fetch = async () => new Response(body, { headers: { "content-type": "application/x-ndjson" } });
  const exported = new Client("https://shop.example", { token: "stoa_at_x", fetch }).products.export();
  const saved: (string | undefined)[] = [];
  for await (const _ of exported) saved.push(exported.cursor); // the program may end after any row
  assert.deepEqual(saved, [undefined, undefined, "two", "two"]);
  assert.equal(exported.cursor, "end");
});

test("an export that was read gives a complete file", async () => {
  const cursors: (string | null)[] = [];
  const fetch: typeof globalThis.fetch = async (url) => {
    cursors.push(new URL(String(url)).searchParams.get("cursor"));
    return new Response(rows.join("") + end, { headers: { "content-type": "application/x-ndjson" } });
  };
  const exported = new Client("https://shop.example", { token: "stoa_at_x", fetch }).products.export({ cursor: "zero" });
  assert.equal((await exported.toArray()).length, 4);
  let text = "";
  for await (const part of exported.file()) text += new TextDecoder().decode(part);
  assert.equal(text, rows.join(""));
  assert.deepEqual(cursors, ["zero", "zero"]);
});

test("an export contains every resource of the list", async () => {
  const client = clientOf(accounts.other);
  const names = ["Export A", "Export B", "Export C"];
  for (const name of names) await client.products.create({ name, price: "1.00", brand: "Exported" });
  const exported = client.products.export({ brand: "Exported" });
  assert.deepEqual((await exported.toArray()).map((product) => product.name), names);
  assert.equal(exported.total, 3);
  assert.deepEqual(await client.products.export({ cursor: exported.cursor }).toArray(), []);
});

test("an export is written to a file, as NDJSON or CSV", async () => {
  const client = clientOf(accounts.other);
  await client.products.create({ name: "Filed", price: "1.00", brand: "Filed" });
  const folder = await mkdtemp(join(tmpdir(), "stoa-export-"));
  try {
    const exported = client.products.export({ brand: "Filed", fields: ["id", "name"] });
    await writeFile(join(folder, "all.ndjson"), exported.file());
    const lines = (await readFile(join(folder, "all.ndjson"), "utf8")).trimEnd().split("\n");
    assert.deepEqual(lines.map((line) => (JSON.parse(line) as { name: string }).name), ["Filed"]);
    assert.equal(exported.total, 1);
    await writeFile(join(folder, "all.csv"), client.products.export({ brand: "Filed", fields: ["id", "name"] }).file("csv"));
    const [head, row] = (await readFile(join(folder, "all.csv"), "utf8")).split("\r\n");
    assert.match(head ?? "", /^id,name/);
    assert.match(row ?? "", /,Filed/);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a file of a broken export resumes, and one without its end throws", async () => {
  let requests = 0;
  const first = `${rows[0]}${rows[1]}{"meta":{"count":2,"cursor":"two"}}\n${rows[2]}`;
  const text = await serving(
    (_request, response) => {
      const body = [first, `${rows[2]}${rows[3]}${end}`][requests++] ?? "";
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      response.write(body, () => (requests === 1 ? response.destroy() : response.end()));
    },
    async (url) => {
      const decoder = new TextDecoder();
      let text = "";
      for await (const part of new Client(url, { token: "stoa_at_x" }).products.export().file()) text += decoder.decode(part);
      return text;
    },
  );
  assert.equal(text, rows.join(""));
  await assert.rejects(
    serving(
      (_request, response) => {
        response.writeHead(200, { "content-type": "text/csv", "content-length": "100" });
        response.write("id,name\r\n", () => response.destroy());
      },
      async (url) => {
        for await (const part of new Client(url, { token: "stoa_at_x", retries: 0 }).products.export().file("csv")) assert.ok(part);
      },
    ),
    ConnectionFailed,
  );
});
