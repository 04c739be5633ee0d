/** Returns from install links, compared with an implementation on `node:crypto`, and the list of installations. */
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, randomBytes } from "node:crypto";
import { test } from "node:test";
import { errors, type Installation, installations, InstallRefused, SignatureRefused, UnexpectedAnswer, verifyInstall } from "@stoa/client";
import { accounts, clientOf, serving } from "./setup.js";

const newSecret = (): string => `whsec_${randomBytes(33).toString("base64")}`;
const seconds = (): number => Math.floor(Date.now() / 1000);
const [SECRET, APP, STATE] = [newSecret(), "stoa_ci_1", "a/b c"];

function returned(secret = SECRET, { at = seconds(), store = "demo", more = {} } = {}): URL {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`install.${APP}.${store}.${at}.${STATE}`).digest("hex");
  const query = new URLSearchParams({ state: STATE, store, timestamp: String(at), signature, ...more });
  return new URL(`https://app.example/installed?${query}#top`);
}

const check = (url: URL, secret: string | string[] = SECRET) => verifyInstall(url, APP, secret, { state: STATE });

test("a signed return names the store, from a URL, text or parameters", async () => {
  const url = returned();
  for (const given of [url, url.href, url.search, url.searchParams]) {
    assert.equal((await verifyInstall(given, APP, SECRET, { state: STATE })).store, "demo");
  }
  assert.equal((await check(returned(SECRET, { at: seconds() - 200 }), [newSecret(), SECRET])).state, STATE);
});

test("a forged, old or altered return is refused", async () => {
  const altered = [
    returned(newSecret()),
    returned(SECRET, { more: { store: "other" } }),
    returned(SECRET, { more: { state: "other" } }),
    returned(SECRET, { more: { timestamp: String(seconds() + 1) } }),
    returned(SECRET, { more: { timestamp: "now" } }),
    returned(SECRET, { more: { signature: "" } }),
    returned(SECRET, { more: { signature: "zz" } }),
    returned(SECRET, { at: seconds() - 310 }),
  ];
  for (const url of altered) await assert.rejects(check(url), SignatureRefused, url.href);
  await assert.rejects(verifyInstall(returned(), "another app", SECRET, { state: STATE }), SignatureRefused);
  await assert.rejects(verifyInstall(returned(), APP, SECRET), /state differs/);
  await assert.rejects(check(returned(SECRET, { more: { error: "access_denied" } })), InstallRefused);
  await assert.rejects(check(returned(), []), TypeError);
});

test("an app lists its installations and calls each store", async () => {
  const { main } = accounts;
  const found: Installation[] = [];
  for await (const each of installations(main)) found.push(each);
  assert.deepEqual(found.map((each) => each.status), ["installed"]);
  assert.ok((await clientOf(main).at(found[0]?.store.base_url ?? "").products.list({ limit: 1 }).first()) !== null);
  for await (const each of installations({ ...main, updatedSince: new Date(Date.now() + 60_000) })) assert.fail(each.store.handle);
});

test("wrong credentials and unexpected responses are typed errors", async () => {
  const first = (options: Parameters<typeof installations>[0]) => installations(options).next();
  await assert.rejects(first({ ...accounts.main, clientSecret: "wrong" }), errors.Unauthorized);
  await serving(
    (_request, response) => response.end("<html>"),
    (url) => assert.rejects(first({ ...accounts.main, authUrl: `${url}/oauth/token` }), UnexpectedAnswer),
  );
});

const page = (next_cursor: string | null = null): Response => Response.json({ data: [{ status: "installed" }], meta: { next_cursor } });

/** What a service, which is a function, lists. */
async function listed(answer: (request: Request) => Response, options: Partial<Parameters<typeof installations>[0]>): Promise<number> {
  const fetch = async (url: RequestInfo | URL, init?: RequestInit) => answer(new Request(url, init));
  let count = 0;
  for await (const _ of installations({ authUrl: "http://localhost/oauth/token/", clientId: "a", ...options, fetch })) count += 1;
  return count;
}

test("a page is repeated after a transient error", async () => {
  const busy = (status: number) => () => new Response("{}", { status, headers: { "retry-after": "0" } });
  const lost = (): Response => {
    throw new TypeError("lost");
  };
  for (const fail of [busy(429), busy(503), busy(502), lost]) {
    const answers = [fail, () => page("a"), fail, page];
    const sent: string[] = [];
    const answer = (request: Request) => {
      sent.push(request.url.replace("http://localhost/oauth/installations?limit=250", ""));
      return (answers.shift() as () => Response)();
    };
    assert.equal(await listed(answer, { clientSecret: "b" }), 2);
    assert.deepEqual(sent, ["", "", "&cursor=a", "&cursor=a"]);
  }
});

test("a token is renewed when it expires or is refused", async () => {
  const pair = generateKeyPairSync("ed25519");
  const privateKey = pair.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  // A service whose tokens are valid for one page, and which says so, or is wrong about it.
  for (const expires_in of [0, 3600]) {
    let issued = 0;
    const used: string[] = [];
    const answer = ({ method, headers }: Request): Response => {
      if (method === "POST") return Response.json({ access_token: `t${++issued}`, expires_in });
      const token = headers.get("authorization") ?? "";
      if (used.includes(token)) return Response.json({ code: "invalid_token" }, { status: 401 });
      return page(["a", "b"][used.push(token) - 1]);
    };
    assert.equal(await listed(answer, { privateKey }), 3);
    assert.deepEqual(used, ["Bearer t1", "Bearer t2", "Bearer t3"]);
    assert.equal(issued, 3);
  }
});
