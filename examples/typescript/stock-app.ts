/**
 * Keeps a copy of the stock of a store in `stock.json`: reads it once, then follows the events of a subscription.
 *
 *     PORT=3000 node dist/stock-app.js
 */
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { Client, SignatureRefused, verify } from "@stoa/client";

interface Level {
  sku: string | null;
  available: number;
  version: number;
}

const LARGEST = 1024 * 1024;
const port = Number(process.env["PORT"] ?? 3000);
const url = process.env["APP_URL"] ?? `http://localhost:${port}/stoa`;
const stock = new Map<number, Level>(); // by variant

/** Store a level, unless the copy is as new: an event can arrive late, twice, or after a newer one. */
function store(variantId: number, level: Level): boolean {
  if ((stock.get(variantId)?.version ?? 0) >= level.version) return false;
  stock.set(variantId, level);
  return true;
}

function save(): void {
  writeFileSync("stock.json", JSON.stringify(Object.fromEntries(stock), null, 2));
}

// Subscribe first and read the stock after that, so that no change is lost in between. Stoa repeats the events that it
// sends before this program listens.
const stoa = Client.fromEnvironment();
for await (const old of stoa.webhooks.list()) if (old.url === url) await stoa.webhooks.delete(old.id);
const { secret = "" } = await stoa.webhooks.create({ name: "Stock copy", url, events: ["product.inventory_changed"] });
for await (const { variant_id, sku, stock: { available }, version } of stoa.products.inventory.list({ limit: 250 })) {
  store(variant_id, { sku, available, version });
}
save();

/** The status to answer with. Stoa sends the event again after any status but 2xx. */
async function receive(request: IncomingMessage): Promise<number> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > LARGEST) return 413;
    parts.push(part);
  }
  try {
    const event = await verify(Buffer.concat(parts), request.headers, secret);
    if (event.type === "product.inventory_changed" && event.data) {
      const { id, sku, stock: { available }, version } = event.data;
      if (store(id, { sku, available, version })) {
        save();
        console.log(`verified ${event.id}: ${sku} has ${available} available`);
      }
    }
    return 204;
  } catch (error) {
    if (!(error instanceof SignatureRefused)) throw error;
    console.log(`refused: ${error.message}`);
    return 400;
  }
}

const server = createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    (error: unknown) => {
      console.error(error);
      response.writeHead(500).end();
    },
  );
});
server.listen(port, () => console.log(`${stock.size} stock levels in stock.json, listening at ${url}`));
process.once("SIGTERM", () => {
  server.close();
  server.closeIdleConnections();
});
