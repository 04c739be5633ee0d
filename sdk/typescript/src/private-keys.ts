/** Authentication with a private key (`private_key_jwt`, RFC 7523): signs an assertion for each token request. */

const LIFETIME_S = 60;
export const ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/** A private key: PEM (PKCS #8) or a JWK, as text or as an object. */
export type PrivateKeySource = string | JsonWebKey;

interface Kind {
  readonly algorithm: "ES256" | "EdDSA" | "RS256";
  readonly key: EcKeyImportParams | RsaHashedImportParams | { name: "Ed25519" };
  readonly signing: EcdsaParams | { name: string };
  /** The public members of the JWK, in the order of its thumbprint (RFC 7638). */
  readonly members: readonly (keyof JsonWebKey)[];
  readonly is: (jwk: JsonWebKey) => boolean;
}

const KINDS: readonly Kind[] = [
  {
    algorithm: "ES256",
    key: { name: "ECDSA", namedCurve: "P-256" },
    signing: { name: "ECDSA", hash: "SHA-256" },
    members: ["crv", "kty", "x", "y"],
    is: ({ kty, crv }) => kty === "EC" && crv === "P-256",
  },
  {
    algorithm: "EdDSA",
    key: { name: "Ed25519" },
    signing: { name: "Ed25519" },
    members: ["crv", "kty", "x"],
    is: ({ kty, crv }) => kty === "OKP" && crv === "Ed25519",
  },
  {
    algorithm: "RS256",
    key: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
    signing: { name: "RSASSA-PKCS1-v1_5" },
    members: ["e", "kty", "n"],
    is: ({ kty }) => kty === "RSA",
  },
];

/** A private key: EC with P-256, Ed25519, or RSA with at least 2048 bits. */
export class PrivateKey {
  readonly algorithm: Kind["algorithm"];
  readonly keyId: string;
  /** The public key, to register in the portal or with `stoa app keys add`. */
  readonly publicJwk: Readonly<Record<string, string>>;
  readonly #kind: Kind;
  readonly #key: CryptoKey;

  private constructor(kind: Kind, key: CryptoKey, members: Record<string, string>, keyId: string) {
    this.algorithm = kind.algorithm;
    this.keyId = keyId;
    this.publicJwk = { ...members, kid: keyId, alg: kind.algorithm, use: "sig" };
    this.#kind = kind;
    this.#key = key;
  }

  /** Read a key. Its id is the one with which it is registered: by default that of the JWK, else its thumbprint. */
  static async from(source: PrivateKeySource, keyId = ""): Promise<PrivateKey> {
    const [kind, key] = await imported(source);
    const jwk = await crypto.subtle.exportKey("jwk", key);
    const members = Object.fromEntries(kind.members.map((name) => [name, String(jwk[name])]));
    const given = typeof source === "object" || source.trimStart().startsWith("{") ? objectOf(source) : {};
    const own = "kid" in given ? String(given.kid) : "";
    return new PrivateKey(kind, key, members, keyId || own || (await thumbprint(members)));
  }

  /** A signed statement that this app asks for a token there, now and once. */
  async assertion(clientId: string, audience: string): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const header = { alg: this.algorithm, typ: "JWT", kid: this.keyId };
    const claims = { iss: clientId, sub: clientId, aud: audience, jti: crypto.randomUUID(), iat: now, exp: now + LIFETIME_S };
    const signed = [header, claims].map((each) => encoded(utf8(JSON.stringify(each)))).join(".");
    const signature = await crypto.subtle.sign(this.#kind.signing, this.#key, utf8(signed));
    return `${signed}.${encoded(new Uint8Array(signature))}`;
  }
}

async function imported(source: PrivateKeySource): Promise<[Kind, CryptoKey]> {
  if (typeof source === "string" && !source.trimStart().startsWith("{")) return fromPem(source);
  // Without `alg`, `use` and `key_ops`, which another program may have set to other names of the same algorithm.
  const { alg: _alg, use: _use, key_ops: _operations, ...jwk } = objectOf(source);
  const kind = KINDS.find((each) => each.is(jwk));
  if (!kind || !jwk.d) throw new TypeError("a private key must be a JWK with kty EC and P-256, OKP and Ed25519, or RSA, and d");
  return [kind, await crypto.subtle.importKey("jwk", jwk, kind.key, true, ["sign"])];
}

function objectOf(source: PrivateKeySource): JsonWebKey & { kid?: unknown } {
  return typeof source === "string" ? (JSON.parse(source) as JsonWebKey) : source;
}

/** The bytes do not say plainly which kind of key they are, so each kind is tried. */
async function fromPem(text: string): Promise<[Kind, CryptoKey]> {
  const body = /-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END PRIVATE KEY-----/.exec(text)?.[1];
  if (!body) throw new TypeError("a private key must be a JWK, or PEM that begins with BEGIN PRIVATE KEY (PKCS #8)");
  const bytes = Uint8Array.from(atob(body.replace(/\s/g, "")), (character) => character.charCodeAt(0));
  for (const kind of KINDS) {
    const key = await crypto.subtle.importKey("pkcs8", bytes, kind.key, true, ["sign"]).catch(() => undefined);
    if (key) return [kind, key];
  }
  throw new TypeError("a private key must be EC with P-256, Ed25519 or RSA");
}

async function thumbprint(members: Record<string, string>): Promise<string> {
  return encoded(new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(JSON.stringify(members)))));
}

function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function encoded(bytes: Uint8Array): string {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
