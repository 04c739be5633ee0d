/**
 * Receives events of Stoa and prints each of them once. It needs only Node.
 *
 *     STOA_WEBHOOK_SECRET=whsec_... node receiver.ts
 *
 * Node runs TypeScript since version 22.18; for an older one, compile the file with tsc. During a rotation, set
 * STOA_WEBHOOK_SECRET to both secrets, separated by a comma.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";

const host = process.env["HOST"] ?? "localhost";
const port = Number(process.env["PORT"] ?? "8787");
const secrets = (process.env["STOA_WEBHOOK_SECRET"] ?? "").split(",").filter(Boolean);
const largest = 1024 * 1024;
const toleranceSeconds = 300;
const handled = new Set<string>(); // in an app, a table with a unique index on the event id

type StoaEvent = { type: string; resource?: { id: number | string } | null };

/** Your code. Ignore types that you do not know: later releases may add events. */
function handle(event: StoaEvent): void {
  console.log("verified", event.type, event.resource?.id);
}

/** Checks the signature over exactly the bytes that arrived, and that they are not old. */
function isSigned(body: Buffer, id: string, timestamp: string, signatures: string): boolean {
  if (id.includes(".")) return false; // Stoa also signs other texts with the secret of an app
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > toleranceSeconds) return false;
  const given = signatures.split(" ").map((each) => Buffer.from(each));
  const expected = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    return Buffer.from(`v1,${createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64")}`);
  });
  return expected.some((one) => given.some((other) => one.length === other.length && timingSafeEqual(one, other)));
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > largest) return null;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** The status to answer with. Stoa sends the event again after any status but 2xx. */
async function receive(request: IncomingMessage): Promise<number> {
  if (request.method !== "POST") return 405;
  const body = await bodyOf(request);
  if (body === null) return 413;
  const header = (name: string): string => String(request.headers[name] ?? "");
  const id = header("webhook-id");
  if (!isSigned(body, id, header("webhook-timestamp"), header("webhook-signature"))) {
    console.log("REFUSED: the signature is invalid");
    return 400;
  }
  if (!handled.has(id)) {
    handle(JSON.parse(body.toString()) as StoaEvent);
    handled.add(id); // only after it was handled: an event that fails is sent again
  } else {
    console.log("repeated", (JSON.parse(body.toString()) as StoaEvent).type, id);
  }
  return 204;
}

if (!secrets.length) throw new Error("set STOA_WEBHOOK_SECRET to the secret of the subscription");
createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    (error: unknown) => {
      console.error(error);
      response.headersSent ? response.destroy() : response.writeHead(500).end();
    },
  );
}).listen(port, host);
