// Fills a migrated database by Medusa's own workflows: medusa exec ./load.js CATALOG LOADED.
// CATALOG is a JSON array of products; LOADED gets the ids that requests name. Products and variants get ids with the numbers of the
// catalog, so that requests can count through them.
const fs = require('fs');
const { ContainerRegistrationKeys, Modules } = require('@medusajs/framework/utils');
const flows = require('@medusajs/medusa/core-flows');

const BATCH = 50;

async function load({ container, args: [catalog, loaded] }) {
  const products = JSON.parse(fs.readFileSync(catalog, 'utf8'));
  const run = async (workflow, input) => (await workflow(container).run({ input })).result;
  const link = container.resolve(ContainerRegistrationKeys.LINK);

  const [channel] = await run(flows.createSalesChannelsWorkflow, { salesChannelsData: [{ name: 'Web' }] });
  const [region] = await run(flows.createRegionsWorkflow, {
    regions: [{ name: 'United Kingdom', currency_code: 'usd', countries: ['gb'], payment_providers: ['pp_system_default'], automatic_taxes: false }],
  });
  const [profile] = await run(flows.createShippingProfilesWorkflow, { data: [{ name: 'Default', type: 'default' }] });
  const [location] = await run(flows.createStockLocationsWorkflow, { locations: [{ name: 'Default' }] });
  await run(flows.linkSalesChannelsToStockLocationWorkflow, { id: location.id, add: [channel.id] });
  await link.create({
    [Modules.STOCK_LOCATION]: { stock_location_id: location.id },
    [Modules.FULFILLMENT]: { fulfillment_provider_id: 'manual_manual' },
  });
  const set = await container.resolve(Modules.FULFILLMENT).createFulfillmentSets({
    name: 'Delivery',
    type: 'shipping',
    service_zones: [{ name: 'United Kingdom', geo_zones: [{ country_code: 'gb', type: 'country' }] }],
  });
  await link.create({
    [Modules.STOCK_LOCATION]: { stock_location_id: location.id },
    [Modules.FULFILLMENT]: { fulfillment_set_id: set.id },
  });
  const [shipping] = await run(flows.createShippingOptionsWorkflow, [
    {
      name: 'Standard',
      price_type: 'flat',
      provider_id: 'manual_manual',
      service_zone_id: set.service_zones[0].id,
      shipping_profile_id: profile.id,
      type: { label: 'Standard', description: 'In two days', code: 'standard' },
      prices: [{ currency_code: 'usd', amount: 4.9 }],
      rules: [],
    },
  ]);
  const [key] = await run(flows.createApiKeysWorkflow, { api_keys: [{ title: 'Web', type: 'publishable', created_by: '' }] });
  await run(flows.linkSalesChannelsToApiKeyWorkflow, { id: key.id, add: [channel.id] });
  await addUser(container, run);
  const tags = await run(flows.createProductTagsWorkflow, {
    product_tags: [...new Set(products.flatMap((product) => product.tags))].map((value) => ({ value })),
  });
  const tagIds = new Map(tags.map((tag) => [tag.value, tag.id]));

  for (let from = 0; from < products.length; from += BATCH) {
    await run(flows.createProductsWorkflow, {
      products: products.slice(from, from + BATCH).map((product) => asProduct(product, tagIds, channel, profile)),
    });
  }
  const query = container.resolve(ContainerRegistrationKeys.QUERY);
  const { data: items } = await query.graph({ entity: 'inventory_item', fields: ['id'] });
  const levels = items.map((item) => ({ inventory_item_id: item.id, location_id: location.id, stocked_quantity: products[0].units }));
  for (let from = 0; from < levels.length; from += 500) {
    await run(flows.createInventoryLevelsWorkflow, { inventory_levels: levels.slice(from, from + 500) });
  }
  fs.writeFileSync(loaded, JSON.stringify({ channel: channel.id, region: region.id, shipping: shipping.id, key: key.token }));
}

async function addUser(container, run) {
  const [user] = await run(flows.createUsersWorkflow, { users: [{ email: 'admin@example.com' }] });
  const auth = container.resolve(Modules.AUTH);
  const { authIdentity, error } = await auth.register('emailpass', {
    body: { email: 'admin@example.com', password: process.env.ADMIN_PASSWORD },
  });
  if (error) throw new Error(error);
  await auth.updateAuthIdentities({ id: authIdentity.id, app_metadata: { user_id: user.id } });
}

function asProduct(product, tagIds, channel, profile) {
  return {
    id: `prod_${product.number}`,
    title: product.name,
    handle: product.slug,
    description: product.description,
    status: product.status === 'active' ? 'published' : 'draft',
    external_id: `erp-${product.number}`,
    metadata: { brand: product.brand, category: product.category },
    images: product.images.map((url) => ({ url })),
    tag_ids: product.tags.map((tag) => tagIds.get(tag)),
    options: [{ title: 'Size', values: product.variants.map((variant) => variant.size) }],
    variants: product.variants.map((variant, position) => ({
      id: `variant_${product.number}_${position + 1}`,
      title: variant.size,
      sku: variant.sku,
      barcode: variant.barcode,
      options: { Size: variant.size },
      manage_inventory: true,
      prices: [{ currency_code: 'usd', amount: Number(variant.price) }],
    })),
    sales_channels: [{ id: channel.id }],
    shipping_profile_id: profile.id,
  };
}

module.exports = { default: load };
