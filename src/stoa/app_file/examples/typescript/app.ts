/**
 * Receives the events of all stores that install the app, and verifies each of them before it uses it.
 *
 *     npm run build && npm start
 */
import { createServer, type IncomingMessage } from "node:http";
import { SignatureRefused, verify } from "@stoa/client";

const LARGEST = 1024 * 1024;
const secret = process.env["STOA_WEBHOOK_SECRET"] ?? ""; // one secret for all stores; `stoa app push` writes it to .env
const port = Number(process.env["PORT"] ?? 3000);

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
    console.log(`verified ${event.id}: ${event.type} on ${event.store?.handle ?? ""}`);
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
server.listen(port, "localhost", () => console.log(`listening at http://localhost:${port}/stoa`));
process.once("SIGTERM", () => {
  server.close();
  server.closeIdleConnections();
});
