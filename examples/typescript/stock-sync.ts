/**
 * Sets the stock of a store to the counts of a warehouse.
 *
 * Reads a CSV file with the columns `sku` and `on_hand`, compares it with the stock levels of the store, and adjusts
 * those that differ. Run it as often as you like: without differences it writes nothing.
 *
 *     node dist/stock-sync.js warehouse.csv
 */
import { readFileSync } from "node:fs";
import { ApiError, Client, type models } from "@stoa/client";

const BATCH = 250;
const [file = "warehouse.csv"] = process.argv.slice(2);

/** The counts of the warehouse by SKU. */
function counted(text: string): Map<string, number> {
  const [header, ...lines] = text.trim().split(/\r?\n/);
  if (header !== "sku,on_hand") throw new Error("the first line must be: sku,on_hand");
  return new Map(
    lines.map((line) => {
      const [sku = "", quantity = ""] = line.split(",");
      if (!sku || !/^\d+$/.test(quantity)) throw new Error(`not a SKU and a number: ${line}`);
      return [sku, Number(quantity)];
    }),
  );
}

const stoa = Client.fromEnvironment();
const counts = counted(readFileSync(file, "utf8"));
const changes: { level: models.StockLevel; quantity: number }[] = [];
for await (const level of stoa.products.inventory.list({ limit: 250 })) {
  const quantity = level.sku === null ? undefined : counts.get(level.sku);
  if (quantity !== undefined && quantity !== level.stock.on_hand) changes.push({ level, quantity });
  if (level.sku !== null) counts.delete(level.sku);
}

let failed = 0;
for (let start = 0; start < changes.length; start += BATCH) {
  const part = changes.slice(start, start + BATCH);
  try {
    const done = await stoa.products.inventory.adjust({
      reason: "stocktake",
      mode: "independent",
      // With `compare_quantity`, an order that is shipped in the meantime is not overwritten: the next run corrects it.
      items: part.map(({ level, quantity }) => ({
        variant_id: level.variant_id,
        op: "set",
        quantity,
        compare_quantity: level.stock.on_hand,
      })),
    });
    failed += done.failures.length;
    for (const item of done.failures) console.error(part[item.index]?.level.sku, item.error?.detail);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failed += part.length;
    console.error(error.message);
  }
}
for (const sku of counts.keys()) console.error(`${sku}: no such SKU in the store`);
console.log(`${changes.length - failed} changed, ${failed} failed, ${counts.size} unknown`);
process.exitCode = failed ? 1 : 0;
