// What an app does with the client of openapi-generator (typescript-fetch): every line is checked against its types.
import { Configuration, CustomersApi, ProductsApi, ResponseError, type NewProduct } from "./api/index.js";

const [basePath, accessToken] = process.argv.slice(2) as [string, string];
// The generated client sends the token of an OAuth scheme as it is, without its type.
const configuration = new Configuration({ basePath, accessToken: `Bearer ${accessToken}` });
const products = new ProductsApi(configuration);
const customers = new CustomersApi(configuration);

async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "no error";
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    return ((await error.response.json()) as { code: string }).code;
  }
}

const made = await products.createProduct({ newProduct: { name: "Jar", price: "7.00", sku: "JAR-1", tags: ["Clay"] } });
const productId = made.data.id as number;
const read = await products.getProduct({ productId });
const listed = await products.listProducts({ sku: ["JAR-1", "JAR-2"], tag: "clay", priceGte: "5.00" });
const asked = await customers.listCustomers({ consent: { email: "subscribed" }, acceptsMarketing: true });
const outdated = products.updateProduct({ productId, productChanges: { price: "8.00" }, ifMatch: '"9"' });

// @ts-expect-error - a status that there is not
const wrong: NewProduct["status"] = "gone";
void wrong;

const results = [read.data.price, listed.meta.total, asked.meta.total, await codeOf(outdated)];
console.log(JSON.stringify([...results, await codeOf(products.getProduct({ productId: 999_999 }))]));
