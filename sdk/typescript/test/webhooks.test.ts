/** Webhook verification, compared with an implementation on `node:crypto`. */
import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { test } from "node:test";
import { SignatureRefused, storeOf, verify } from "@stoa/client";

const newSecret = (): string => `whsec_${randomBytes(33).toString("base64")}`;
const seconds = (): number => Math.floor(Date.now() / 1000);
const SECRET = newSecret();
const BODY = JSON.stringify({ id: "evt_1", type: "product.created", sequence: 7, data: { id: 512, name: "Mug \u00e9" } });

function signed(secret = SECRET, { body = BODY, at = seconds(), id = "msg_1" } = {}): Record<string, string> {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
  return { "Webhook-Id": id, "webhook-timestamp": String(at), "webhook-signature": `v1,${signature}` };
}

test("a signed message is an event, from text, bytes and all kinds of headers", async () => {
  const event = await verify(BODY, signed(), SECRET);
  assert.equal(event.type === "product.created" && event.data?.name, "Mug \u00e9");
  assert.equal((await verify(Buffer.from(BODY), new Headers(signed()), SECRET)).id, "evt_1");
  const own = new Headers(signed());
  const foreign = { get: (name: string) => own.get(name) }; // as of `undici`, or of a VM
  assert.equal((await verify(BODY, foreign, SECRET)).id, "evt_1");
  await assert.rejects(verify(BODY, { get: () => null }, SECRET), /are required/);
});

test("an altered message is refused", async () => {
  const altered: [Record<string, string>, string][] = [
    [signed(), `${BODY} `],
    [{ ...signed(), "Webhook-Id": "msg_2" }, BODY],
    [{ ...signed(), "webhook-timestamp": String(seconds() + 30) }, BODY],
    [{ ...signed(), "webhook-signature": "v1," }, BODY],
    [{ ...signed(), "webhook-signature": "v1,not base64!" }, BODY],
    [{ ...signed(), "webhook-signature": signed()["webhook-signature"]?.replace("v1", "v2") ?? "" }, BODY],
    [{ ...signed(), "webhook-timestamp": "now" }, BODY],
    [{ ...signed(), "webhook-timestamp": "9".repeat(400) }, BODY],
    [{ ...signed(), "webhook-timestamp": "\u0663" }, BODY],
    [{ "webhook-id": "msg_1" }, BODY],
    [signed(SECRET, { id: "install.stoa_ci_1.demo" }), BODY],
    [signed(newSecret()), BODY],
    [signed(SECRET, { body: "[]" }), "[]"],
    [signed(SECRET, { body: "no JSON" }), "no JSON"],
  ];
  for (const [headers, body] of altered) await assert.rejects(verify(body, headers, SECRET), SignatureRefused, JSON.stringify(headers));
});

test("a clock that is off is within the tolerance, or refused", async () => {
  for (const offset of [-299, 299]) assert.equal((await verify(BODY, signed(SECRET, { at: seconds() + offset }), SECRET)).id, "evt_1");
  for (const offset of [-310, 310]) {
    await assert.rejects(verify(BODY, signed(SECRET, { at: seconds() + offset }), SECRET), /check the clock/);
  }
  const old = signed(SECRET, { at: 1_700_000_000 });
  assert.equal((await verify(BODY, old, SECRET, { now: 1_700_000_100 })).id, "evt_1");
  assert.equal((await verify(BODY, old, SECRET, { toleranceS: 1e10 })).id, "evt_1");
  await assert.rejects(verify(BODY, signed(), SECRET, { toleranceS: Number.NaN }), SignatureRefused);
});

test("during a rotation either secret is accepted", async () => {
  const [older, newer] = [newSecret(), newSecret()];
  const both = signed(newer);
  both["webhook-signature"] += ` ${signed(older)["webhook-signature"]}`;
  for (const secret of [older, newer]) assert.equal((await verify(BODY, both, secret)).id, "evt_1");
  assert.equal((await verify(BODY, signed(older), [newer, older])).id, "evt_1");
});

test("an invalid secret is a TypeError", async () => {
  for (const secret of ["whsec_not base64", "whsec_", []]) await assert.rejects(verify(BODY, signed(), secret), TypeError);
});

test("a message of an app subscription names its store, which is verified", async () => {
  const body = JSON.stringify({ id: "evt_1", type: "product.created", store: { id: 7, handle: "demo", base_url: "" } });
  const at = seconds();
  const headers: Record<string, string> = { ...signed(SECRET, { body, at }), "webhook-store": "7" };
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const named = createHmac("sha256", key).update(`store.msg_1.${at}.7`).digest("base64");
  await assert.rejects(verify(body, headers, SECRET), SignatureRefused);
  headers["webhook-signature"] = `${headers["webhook-signature"]} v1s,${named}`;
  assert.equal((await verify(body, headers, SECRET)).store.id, 7);
  assert.equal(await storeOf(headers, SECRET), 7);
  assert.equal(await storeOf(headers, [newSecret(), SECRET]), 7);
  for (const wrong of [{ "webhook-store": "8" }, { "webhook-store": "seven" }, { "webhook-timestamp": String(at + 1) }]) {
    await assert.rejects(storeOf({ ...headers, ...wrong }, SECRET), SignatureRefused);
    await assert.rejects(verify(body, { ...headers, ...wrong }, SECRET), SignatureRefused);
  }
  const other = JSON.stringify({ id: "evt_1", type: "product.created", store: { id: 8, handle: "b", base_url: "" } });
  const mixed: Record<string, string> = { ...signed(SECRET, { body: other, at }), "webhook-store": "7" };
  mixed["webhook-signature"] = `${mixed["webhook-signature"]} v1s,${named}`;
  await assert.rejects(verify(other, mixed, SECRET), /another store/);
  await assert.rejects(storeOf(signed(), SECRET), /webhook-store is required/);
});
