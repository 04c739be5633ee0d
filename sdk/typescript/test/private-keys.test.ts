/** Authentication with a private key: tokens of the running service, and keys made by `node:crypto`. */
import assert from "node:assert/strict";
import { generateKeyPairSync, verify } from "node:crypto";
import { test } from "node:test";
import { Client, type Installation, installations, PrivateKey, TokenRefused } from "@stoa/client";
import { accounts, recording } from "./setup.js";

const { keyed } = accounts;
const PEM = process.env["STOA_TEST_PRIVATE_KEY"] ?? "";

test("a client with a private key reads a store, and signs each request by itself", async () => {
  const { baseUrl, authUrl, clientId } = keyed;
  let lost = 0;
  const { seen, fetch } = recording((response) => {
    if (!response.url.endsWith("/oauth/token") || lost++) return response;
    throw new TypeError("lost");
  });
  const client = new Client(baseUrl, { clientId, privateKey: PEM, fetch });
  assert.equal((await client.products.list().page()).meta["total"], 0);
  const asked = await Promise.all(seen.filter(({ url }) => url.endsWith("/oauth/token")).map((each) => each.text()));
  assert.equal(new Set(asked).size, 2);
  const shared = new Client(baseUrl, { clientId, authUrl, privateKey: await PrivateKey.from(PEM) }).at(baseUrl);
  assert.equal((await shared.products.list().page()).meta["total"], 0);
  const found: Installation[] = [];
  for await (const each of installations({ authUrl, clientId, privateKey: PEM })) found.push(each);
  assert.equal(found.length, 1);
});

test("another key is refused", async () => {
  const { privateKey } = generateKeyPairSync("ed25519");
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const client = new Client(keyed.baseUrl, { clientId: keyed.clientId, privateKey: pem });
  await assert.rejects(client.products.list().page(), TokenRefused);
});

test("keys are read from PEM and from JWKs, and their signatures verify", async () => {
  const pairs = [
    ["ES256", generateKeyPairSync("ec", { namedCurve: "P-256" })],
    ["EdDSA", generateKeyPairSync("ed25519")],
    ["RS256", generateKeyPairSync("rsa", { modulusLength: 2048 })],
  ] as const;
  for (const [algorithm, { privateKey, publicKey }] of pairs) {
    const jwk = privateKey.export({ format: "jwk" });
    const sources = [privateKey.export({ type: "pkcs8", format: "pem" }).toString(), jwk, JSON.stringify({ ...jwk, use: "sig" })];
    const keys = await Promise.all(sources.map((each) => PrivateKey.from(each)));
    assert.equal(new Set(keys.map(({ keyId }) => keyId)).size, 1);
    assert.equal((await PrivateKey.from({ ...jwk, kid: "mine" } as JsonWebKey)).keyId, "mine");
    for (const key of keys) {
      assert.equal(key.algorithm, algorithm);
      assert.ok(!("d" in key.publicJwk));
      const [head, body, signature] = (await key.assertion("app", "https://api.example.com")).split(".");
      const options = algorithm === "ES256" ? { key: publicKey, dsaEncoding: "ieee-p1363" as const } : publicKey;
      const hash = algorithm === "EdDSA" ? null : "sha256";
      assert.ok(verify(hash, Buffer.from(`${head}.${body}`), options, Buffer.from(signature ?? "", "base64url")));
    }
  }
});

test("what is not a private key is refused", async () => {
  for (const each of ["", "key", '{"kty":"oct","k":"AA"}', { kty: "EC", crv: "P-256", x: "A", y: "A" }]) {
    await assert.rejects(PrivateKey.from(each), TypeError);
  }
  assert.throws(() => new Client("https://shop.example.com", { clientId: "c", clientSecret: "s", privateKey: PEM }), TypeError);
  assert.throws(() => new Client("https://shop.example.com", { privateKey: PEM }), TypeError);
});
