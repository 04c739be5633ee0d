// Creates the tables and fills them by Vendure's importer: node load.js CATALOG LOADED.
// CATALOG is a JSON array of products; LOADED gets the ids of the products, and of the first variant of each.
const fs = require('fs');
const { bootstrap, Importer, JobQueueService, LanguageCode, Populator, RequestContextService, SearchService, TransactionalConnection } = require('@vendure/core');
const { config } = require('./config');

const [catalog, loaded] = process.argv.slice(2);
const languageCode = LanguageCode.en;
const SHOP = {
  defaultLanguage: languageCode,
  defaultZone: 'Europe',
  countries: [{ name: 'United Kingdom', code: 'GB', zone: 'Europe' }],
  taxRates: [{ name: 'Standard', percentage: 0 }],
  shippingMethods: [{ name: 'Standard', price: 490 }],
  paymentMethods: [{ name: 'Card', handler: { code: 'dummy-payment-handler', arguments: [{ name: 'automaticSettle', value: 'false' }] } }],
  collections: [],
};

function imported(product) {
  const facet = (name, value) => ({ translations: [{ languageCode, facet: name, value }] });
  return {
    product: {
      assetPaths: [],
      optionGroups: [{ translations: [{ languageCode, name: 'Size', values: product.variants.map((variant) => variant.size) }] }],
      facets: [facet('brand', product.brand), facet('category', product.category), ...product.tags.map((tag) => facet('tag', tag))],
      translations: [{ languageCode, name: product.name, slug: product.slug, description: product.description, customFields: {} }],
    },
    variants: product.variants.map((variant) => ({
      sku: variant.sku,
      price: Number(variant.price),
      taxCategory: 'standard',
      stockOnHand: product.units,
      trackInventory: 'TRUE',
      assetPaths: [],
      facets: [],
      translations: [{ languageCode, optionValues: [variant.size], customFields: {} }],
    })),
  };
}

async function load() {
  const products = JSON.parse(fs.readFileSync(catalog, 'utf8'));
  const app = await bootstrap(config);
  await app.get(Populator).populateInitialData(SHOP);
  const ctx = await app.get(RequestContextService).create({ apiType: 'admin', languageCode });
  const errors = await app.get(Importer).importProducts(ctx, products.map(imported), () => undefined);
  if (errors.length) throw new Error(errors.join('\n'));
  const db = app.get(TransactionalConnection).rawConnection;
  const drafts = products.filter((product) => product.status === 'draft').map((product) => product.slug);
  await db.query(
    'UPDATE product SET enabled = false WHERE id IN (SELECT "baseId" FROM product_translation WHERE slug = ANY ($1))',
    [drafts],
  );
  await db.query('DELETE FROM job_record'); // a job for each variant, which the whole index makes superfluous
  await app.get(JobQueueService).start();
  await reindex(app, ctx, db);
  const rows = await db.query(
    `SELECT v."productId" AS product, v.id AS variant FROM product_variant v WHERE v.sku = ANY ($1) ORDER BY v."productId"`,
    [products.map((product) => product.variants[0].sku)],
  );
  fs.writeFileSync(loaded, JSON.stringify({ products: rows.map((row) => row.product), variants: rows.map((row) => row.variant) }));
  await db.query('VACUUM ANALYZE');
  await app.close();
}

async function reindex(app, ctx, db) {
  const job = await app.get(SearchService).reindex(ctx);
  for (;;) {
    const [{ state, error }] = await db.query('SELECT state, error FROM job_record WHERE id = $1', [job.id]);
    if (state === 'COMPLETED') return;
    if (state === 'FAILED' || state === 'CANCELLED') throw new Error(`the search index: ${state} ${error}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

load().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
