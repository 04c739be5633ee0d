import {
	NodeConnectionTypes,
	NodeOperationError,
	tryToParseDateTime,
	type IDataObject,
	type IExecuteFunctions,
	type INodeExecutionData,
	type INodeType,
	type INodeTypeDescription,
} from 'n8n-workflow';

import { fields } from './fields';
import { PAGE_SIZE, request, rows } from './requests';
import { RESOURCES, RESOURCE_OPTIONS } from './resources';

export class Stoa implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Stoa',
		name: 'stoa',
		icon: { light: 'file:../../icons/stoa.svg', dark: 'file:../../icons/stoa.dark.svg' },
		group: ['transform'],
		version: 1,
		subtitle: '={{$parameter["operation"] + ": " + $parameter["resource"]}}',
		description: 'Read and change products, customers and orders of a store',
		defaults: { name: 'Stoa' },
		usableAsTool: true,
		inputs: [NodeConnectionTypes.Main],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'stoaOAuth2Api', required: true }],
		properties: [
			{
				displayName: 'Resource',
				name: 'resource',
				type: 'options',
				noDataExpression: true,
				options: RESOURCE_OPTIONS,
				default: 'product',
			},
			...fields,
		],
	};

	async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
		const output: INodeExecutionData[] = [];
		for (let item = 0; item < this.getInputData().length; item++) {
			try {
				for (const json of await run.call(this, item)) output.push({ json, pairedItem: { item } });
			} catch (error) {
				if (!this.continueOnFail()) throw new NodeOperationError(this.getNode(), error as Error, { itemIndex: item });
				output.push({ json: { error: (error as Error).message }, pairedItem: { item } });
			}
		}
		return [output];
	}
}

async function run(this: IExecuteFunctions, item: number): Promise<IDataObject[]> {
	const name = this.getNodeParameter('resource', item) as string;
	const resource = RESOURCES[name];
	const operation = this.getNodeParameter('operation', item) as string;
	if (resource === undefined) throw new NodeOperationError(this.getNode(), `There is no resource "${name}".`);
	if (operation === 'getAll') return await list.call(this, item, resource.path);

	const one = () => `${resource.path}/${encodeURIComponent(String(this.getNodeParameter('id', item)))}`;
	const body = () => this.getNodeParameter('body', item, {}, { ensureType: 'object' }) as IDataObject;
	switch (operation) {
		case 'get':
			return [(await request(this, 'GET', one())).data as IDataObject];
		case 'create':
			return [(await request(this, 'POST', resource.path, { body: body(), key: key.call(this, item) })).data as IDataObject];
		case 'update':
			return [(await request(this, 'PATCH', one(), { body: body(), key: key.call(this, item) })).data as IDataObject];
		case 'delete':
			await request(this, 'DELETE', one(), { key: key.call(this, item) });
			return [{ deleted: true }];
		default:
			throw new NodeOperationError(this.getNode(), `There is no operation "${operation}".`);
	}
}

/** The same for every attempt of one write, so that "Retry On Fail" never writes twice; another in the next round of a loop. */
function key(this: IExecuteFunctions, item: number): string {
	const round = this.evaluateExpression('{{ $runIndex }}', item) as number;
	return ['n8n', this.getInstanceId(), this.getWorkflow().id, this.getExecutionId(), this.getNode().id, round, item]
		.join(':')
		.replace(/[^!-~]/g, '_')
		.slice(-255);
}

async function list(this: IExecuteFunctions, item: number, path: string): Promise<IDataObject[]> {
	const all = this.getNodeParameter('returnAll', item) as boolean;
	const limit = all ? Infinity : (this.getNodeParameter('limit', item) as number);
	const options = this.getNodeParameter('options', item, {}) as {
		updatedSince?: string;
		includeDeleted?: boolean;
		filters?: { filter?: Array<{ name: string; value: string }> };
	};
	const query: IDataObject = { limit: Math.min(limit, PAGE_SIZE) };
	for (const { name, value } of options.filters?.filter ?? []) query[name] = value;
	if (options.updatedSince) {
		// The editor writes a local time without a zone: it is meant in the zone of the workflow.
		query.updated_since = tryToParseDateTime(options.updatedSince, this.getTimezone()).toUTC().toISO();
		query.sort = 'updated_at';
	}
	if (options.includeDeleted) query.include_deleted = true;
	const found: IDataObject[] = [];
	for await (const row of rows(this, path, query)) {
		found.push(row);
		if (found.length >= limit) break;
	}
	return found;
}
