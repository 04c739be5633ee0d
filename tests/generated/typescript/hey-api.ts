// What an app does with the client of @hey-api/openapi-ts: every line is checked against the generated types.
import { client } from "./api/client.gen.ts";
import { createProduct, getProduct, listCustomers, listProducts, updateProduct } from "./api/sdk.gen.ts";
import type { NewProduct, Product } from "./api/types.gen.ts";

const [baseUrl, token] = process.argv.slice(2) as [string, string];
client.setConfig({ baseUrl, auth: token });

const made = await createProduct({ body: { name: "Vase", price: "31.00", sku: "VASE-1", tags: ["Glass"] } });
if (made.error) throw new Error(made.error.detail);
// Without `fields`, the response is the whole product.
const product = made.data.data as Product;

const read = await getProduct({ path: { product_id: product.id } });
const listed = await listProducts({
  query: { sku: ["VASE-1", "VASE-2"], tag: "glass", "price[gte]": "10.00", fields: ["id", "name"], sort: ["-price"] },
});
const asked = await listCustomers({ query: { consent: { email: "subscribed" }, accepts_marketing: true } });
const outdated = await updateProduct({
  path: { product_id: product.id },
  body: { price: "32.00" },
  headers: { "If-Match": '"9"' },
});
const missing = await getProduct({ path: { product_id: 999_999 } });

// @ts-expect-error - a status that there is not
const wrong: NewProduct["status"] = "gone";
void wrong;

const results = [read.data?.data.price, listed.data?.meta.total, asked.data?.meta.total, outdated.error?.code];
console.log(JSON.stringify([...results, missing.error?.code]));
