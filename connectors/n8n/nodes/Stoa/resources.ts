export interface Resource {
	path: string;
	/** The member that identifies a row. */
	key: string;
	/** Whether deleted rows appear as tombstones; orders are never deleted. */
	tombstones: boolean;
}

export const RESOURCES: Record<string, Resource> = {
	customer: { path: '/customers', key: 'id', tombstones: true },
	inventory: { path: '/products/inventory', key: 'variant_id', tombstones: true },
	order: { path: '/orders', key: 'id', tombstones: false },
	product: { path: '/products', key: 'id', tombstones: true },
	variant: { path: '/products/variants', key: 'id', tombstones: true },
};

export const RESOURCE_OPTIONS = [
	{ name: 'Customer', value: 'customer' },
	{ name: 'Order', value: 'order' },
	{ name: 'Product', value: 'product' },
	{ name: 'Stock Level', value: 'inventory' },
	{ name: 'Variant', value: 'variant' },
];
