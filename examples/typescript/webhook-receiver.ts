/**
 * Receives events over HTTP and prints each of them once.
 *
 *     STOA_WEBHOOK_SECRET=whsec_... PORT=3000 node dist/webhook-receiver.js
 *
 * During a rotation, set `STOA_WEBHOOK_SECRET` to both secrets, separated by a comma.
 */
import { createServer, type IncomingMessage } from "node:http";
import { type Event, SignatureRefused, verify } from "@stoa/client";

const LARGEST = 1024 * 1024;
const secrets = (process.env["STOA_WEBHOOK_SECRET"] ?? "").split(",").filter(Boolean);
const handled = new Set<string>(); // in an app, a table with a unique index on the event id

/** The raw bytes of a request; the signature covers exactly these. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > LARGEST) return null;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function handle(event: Event): void {
  switch (event.type) {
    case "order.created":
      console.log(`order ${event.data?.number}: ${event.data?.total}`);
      break;
    case "product.inventory_changed":
    case "product.low_stock":
      console.log(`stock of ${event.data?.sku}: ${event.data?.stock.available} available`);
      break;
    default: // later releases may add events
      console.log(`${event.type} ${event.resource.id}`);
  }
}

/** The status to answer with. Stoa sends the event again after any status but 2xx. */
async function receive(request: IncomingMessage): Promise<number> {
  if (request.method !== "POST") return 405;
  const body = await bodyOf(request);
  if (body === null) return 413;
  try {
    const event = await verify(body, request.headers, secrets);
    if (!handled.has(event.id)) {
      handle(event);
      handled.add(event.id); // only after it was handled: an event that fails is sent again
    }
    return 204;
  } catch (error) {
    if (error instanceof SignatureRefused) return 400;
    console.error(error);
    return 500;
  }
}

if (!secrets.length) throw new Error("set STOA_WEBHOOK_SECRET to the secret of the subscription");
const server = createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    () => response.destroy(), // the connection was cut while the body arrived
  );
});
server.listen(Number(process.env["PORT"] ?? 3000), () => console.log("ready"));
process.once("SIGTERM", () => {
  server.close();
  server.closeIdleConnections();
});
