// What an app in TypeScript does with the types of the API: every line is checked against them.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.ts";

const [baseUrl, token] = process.argv.slice(2) as [string, string];
const client = createClient<paths, "application/json" | "application/problem+json">({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

const made = await client.POST("/api/v3/app/products", {
  body: { name: "Bowl", price: "18.00", sku: "BOWL-1", status: "draft" },
});
if (made.error) throw new Error(made.error.detail);
// Without `fields`, the response is the whole product.
const product = made.data.data as components["schemas"]["Product"];
const sparse: components["schemas"]["SparseProduct"] = made.data.data;
void sparse;

const read = await client.GET("/api/v3/app/products/{product_id}", { params: { path: { product_id: product.id } } });
const listed = await client.GET("/api/v3/app/products", {
  params: { query: { status: ["draft"], "price[gte]": "10.00", metadata: {}, fields: ["id", "name"] } },
  querySerializer: { array: { style: "form", explode: false } },
});
const missing = await client.GET("/api/v3/app/products/{product_id}", { params: { path: { product_id: 999_999 } } });

// @ts-expect-error - a status that there is not
const wrong: components["schemas"]["NewProduct"]["status"] = "gone";
void wrong;

console.log(JSON.stringify([read.data?.data.price, listed.data?.meta.total, missing.error?.code]));
