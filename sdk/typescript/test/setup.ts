/** The service under test, and servers and transports that misbehave. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, type ClientOptions } from "@stoa/client";

/** An app on a store. */
export interface Account {
  baseUrl: string;
  authUrl: string;
  clientId: string;
  clientSecret: string;
  token: string;
}

const names = ["main", "other", "narrow", "suspended", "keyed"] as const;
export const accounts = JSON.parse(process.env["STOA_TEST_ACCOUNTS"] ?? "{}") as Record<(typeof names)[number], Account>;

export function clientOf(account: Account, options: ClientOptions = {}): Client {
  const { baseUrl, authUrl, clientId, clientSecret } = account;
  return new Client(baseUrl, { authUrl, clientId, clientSecret, ...options });
}

/** A `fetch` that records every request, and may replace or lose its response. */
export function recording(lose: (response: Response, times: number) => Response | Promise<Response> = (response) => response) {
  const seen: Request[] = [];
  const send: typeof fetch = async (input, init) => {
    const request = new Request(input, { ...init, ...(init?.body instanceof Blob && { duplex: "half" }) } as RequestInit);
    seen.push(request.clone());
    const times = seen.filter((each) => each.url === request.url && each.method === request.method).length;
    return lose(await fetch(request), times);
  };
  return { seen, fetch: send };
}

/** A server that behaves as given, and how often it was called. */
export async function serving<T>(behave: RequestListener, use: (url: string) => Promise<T>): Promise<T> {
  const server = createServer(behave).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
