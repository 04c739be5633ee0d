/** Uploads pictures of products, in addition to the generated calls. */
import { Resource } from "./connection.js";
import { VersionConflict } from "./generated/codes.js";
import type { Image, Product } from "./generated/models.js";
import { begun, type CallOptions } from "./options.js";
import { segment } from "./requests.js";

const TRIES = 5; // others may change the product at the same time
const SIGNATURES: readonly (readonly [at: number, begin: string, media: string])[] = [
  [0, "\xff\xd8\xff", "image/jpeg"],
  [0, "\x89PNG", "image/png"],
  [0, "GIF8", "image/gif"],
  [8, "WEBP", "image/webp"],
  [8, "avif", "image/avif"],
];

/** The pictures of products. */
export class ProductImages extends Resource {
  /**
   * Add a picture to a product, after its other images: a `Blob`, a `File`, or the bytes of a file of at most 8 MB.
   *
   * It takes no idempotency key: if it fails without a clear answer, read the images of the product before you repeat it.
   * In Node, `openAsBlob` of `node:fs` opens a file. Requires the scope `products:write`.
   */
  async upload(
    productId: number,
    file: Blob | Uint8Array,
    options: CallOptions & { alt?: string | undefined } = {},
  ): Promise<Image> {
    const { alt = null, ...rest } = begun(options);
    const bytes = file instanceof Blob ? new Uint8Array(await file.arrayBuffer()) : file;
    const image = { content_type: mediaOf(bytes), data: base64(bytes), alt };
    const path = `/products/${segment(productId)}`;
    for (let triesLeft = TRIES - 1; ; triesLeft--) {
      const product = await this.connection.one<Product>("GET", path, { options: rest });
      const kept = product.images.map(({ id, url, alt }) => ({ id, url, alt }));
      try {
        const changed = await this.connection.one<Product>("PATCH", path, {
          body: { images: [...kept, image] },
          options: { ...rest, ifMatch: product },
        });
        return changed.images.at(-1) as Image;
      } catch (error) {
        if (!(error instanceof VersionConflict) || triesLeft === 0) throw error;
      }
    }
  }
}

function mediaOf(bytes: Uint8Array): string {
  const first = String.fromCharCode(...bytes.subarray(0, 16));
  const found = SIGNATURES.find(([at, begin]) => first.startsWith(begin, at));
  if (!found) throw new TypeError("the file is not a JPEG, PNG, WebP, GIF or AVIF picture");
  return found[2];
}

function base64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let start = 0; start < bytes.length; start += 0x6000) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(start, start + 0x6000))));
  }
  return parts.join("");
}
