/** Uploads: bytes that can be sent again, so that an interrupted upload can be retried. */
import { json } from "./requests.js";

const NDJSON = "application/x-ndjson";
const MEDIA: readonly (readonly [ending: string, media: string])[] = [
  [".ndjson", NDJSON],
  [".jsonl", NDJSON],
  [".csv", "text/csv"],
  [".json", "application/json"],
];

/**
 * A file to import: a `Blob` or `File`, bytes, or rows, which are sent as NDJSON.
 *
 * In Node, `openAsBlob` of `node:fs` opens a file without reading it into memory.
 */
export type Upload = Blob | Uint8Array | Iterable<object> | AsyncIterable<object>;

export interface Opened {
  readonly blob: Blob;
  readonly mediaType: string;
  readonly gzipped: boolean;
}

export async function opened(given: Upload, mediaType: string | undefined): Promise<Opened> {
  const bytes = given instanceof Blob || given instanceof Uint8Array;
  const blob = given instanceof Blob ? given : new Blob(bytes ? [given as BlobPart] : await lines(given));
  const media = mediaType ?? (bytes ? mediaOf(blob) : NDJSON);
  if (!media) throw new TypeError(`pass mediaType, one of ${[...new Set(MEDIA.map(([, each]) => each))].join(", ")}`);
  const [first, second] = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  return { blob, mediaType: media, gzipped: first === 0x1f && second === 0x8b };
}

async function lines(rows: Iterable<object> | AsyncIterable<object>): Promise<string[]> {
  const found: string[] = [];
  for await (const row of rows) {
    if (row instanceof Uint8Array || typeof row !== "object") throw new TypeError("pass rows as objects, or a Blob of bytes");
    found.push(`${json(row)}\n`);
  }
  return found;
}

/** The format by the name of a file or the type of a blob. */
function mediaOf(blob: Blob): string | undefined {
  const name = "name" in blob ? String(blob.name).toLowerCase().replace(/\.gz$/, "") : "";
  const type = blob.type.split(";")[0]?.trim();
  return MEDIA.find(([ending, media]) => name.endsWith(ending) || media === type)?.[1];
}
