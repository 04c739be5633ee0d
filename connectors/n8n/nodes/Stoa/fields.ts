import type { INodeProperties, INodePropertyOptions } from 'n8n-workflow';

const create = (article: string): INodePropertyOptions => ({
	name: 'Create',
	value: 'create',
	action: `Create ${article}`,
});
const remove = (article: string): INodePropertyOptions => ({
	name: 'Delete',
	value: 'delete',
	action: `Delete ${article}`,
});
const get = (article: string): INodePropertyOptions => ({ name: 'Get', value: 'get', action: `Get ${article}` });
const getAll = (plural: string): INodePropertyOptions => ({
	name: 'Get Many',
	value: 'getAll',
	action: `Get many ${plural}`,
});
const update = (article: string): INodePropertyOptions => ({
	name: 'Update',
	value: 'update',
	action: `Update ${article}`,
});

const operations = (resource: string, options: INodePropertyOptions[]): INodeProperties => ({
	displayName: 'Operation',
	name: 'operation',
	type: 'options',
	noDataExpression: true,
	displayOptions: { show: { resource: [resource] } },
	options,
	default: 'getAll',
});

export const fields: INodeProperties[] = [
	operations('customer', [
		create('a customer'),
		remove('a customer'),
		get('a customer'),
		getAll('customers'),
		update('a customer'),
	]),
	operations('inventory', [getAll('stock levels')]),
	operations('order', [create('an order'), get('an order'), getAll('orders'), update('an order')]),
	operations('product', [
		create('a product'),
		remove('a product'),
		get('a product'),
		getAll('products'),
		update('a product'),
	]),
	operations('variant', [getAll('variants')]),
	{
		displayName: 'ID',
		name: 'id',
		type: 'number',
		required: true,
		default: 0,
		displayOptions: { show: { operation: ['delete', 'get', 'update'] } },
		description: 'The ID of the resource',
	},
	{
		displayName: 'Fields',
		name: 'body',
		type: 'json',
		required: true,
		default: '{}',
		displayOptions: { show: { operation: ['create', 'update'] } },
		description: 'The body of the request, as the API reference of the store at /docs describes it',
	},
	{
		displayName: 'Return All',
		name: 'returnAll',
		type: 'boolean',
		default: false,
		displayOptions: { show: { operation: ['getAll'] } },
		description: 'Whether to return all results or only up to a given limit',
	},
	{
		displayName: 'Limit',
		name: 'limit',
		type: 'number',
		typeOptions: { minValue: 1 },
		default: 50,
		displayOptions: { show: { operation: ['getAll'], returnAll: [false] } },
		description: 'Max number of results to return',
	},
	{
		displayName: 'Options',
		name: 'options',
		type: 'collection',
		placeholder: 'Add option',
		default: {},
		displayOptions: { show: { operation: ['getAll'] } },
		options: [
			{
				displayName: 'Filters',
				name: 'filters',
				type: 'fixedCollection',
				typeOptions: { multipleValues: true },
				placeholder: 'Add Filter',
				default: {},
				description: 'Query parameters of the list, such as status, sku or total[gte]',
				options: [
					{
						displayName: 'Filter',
						name: 'filter',
						values: [
							{
								displayName: 'Name',
								name: 'name',
								type: 'string',
								default: '',
								placeholder: 'status',
							},
							{
								displayName: 'Value',
								name: 'value',
								type: 'string',
								default: '',
							},
						],
					},
				],
			},
			{
				displayName: 'Include Deleted',
				name: 'includeDeleted',
				type: 'boolean',
				default: false,
				description: 'Whether to include tombstones of what was deleted in the last 90 days. Orders have none.',
			},
			{
				displayName: 'Updated Since',
				name: 'updatedSince',
				type: 'dateTime',
				default: '',
				description: 'Return only what changed at or after this time, in the order of the changes',
			},
		],
	},
];
