import {
	NodeConnectionTypes,
	NodeOperationError,
	type IDataObject,
	type INodeExecutionData,
	type INodeType,
	type INodeTypeDescription,
	type IPollFunctions,
} from 'n8n-workflow';

import { PAGE_SIZE, rows, type Row } from './requests';
import { RESOURCES, RESOURCE_OPTIONS, type Resource } from './resources';

/** A change becomes visible when it is committed, slightly after its `updated_at`: each poll reads the last minute again. */
const OVERLAP_MS = 60_000;

interface Position {
	/** The resource that the position belongs to: another choice starts over. */
	resource?: string;
	latest?: string;
	/** The versions in the last minute before `latest`, by key: what a poll reads again is not new. */
	seen?: Record<string, number>;
}

export class StoaTrigger implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Stoa Trigger',
		name: 'stoaTrigger',
		icon: { light: 'file:../../icons/stoa.svg', dark: 'file:../../icons/stoa.dark.svg' },
		group: ['trigger'],
		version: 1,
		subtitle: '={{$parameter["resource"]}}',
		description: 'Starts a workflow with what was created, changed or deleted in a store',
		defaults: { name: 'Stoa Trigger' },
		polling: true,
		usableAsTool: undefined,
		inputs: [],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'stoaOAuth2Api', required: true }],
		properties: [
			{
				displayName: 'Resource',
				name: 'resource',
				type: 'options',
				noDataExpression: true,
				options: RESOURCE_OPTIONS,
				default: 'order',
			},
		],
	};

	async poll(this: IPollFunctions): Promise<INodeExecutionData[][] | null> {
		const name = this.getNodeParameter('resource') as string;
		const resource = RESOURCES[name];
		if (resource === undefined) throw new NodeOperationError(this.getNode(), `There is no resource "${name}".`);
		if (this.getMode() === 'manual') return output(await newest(this, resource));

		const state = this.getWorkflowStaticData('node') as Position;
		const first = state.resource !== name;
		// The first poll remembers where the store is, and starts no workflow with the past.
		const known: Position = first ? { latest: (await newest(this, resource))[0]?.updated_at } : state;
		const changed: Row[] = [];
		const read: Row[] = [];
		for await (const row of rows(this, resource.path, since(resource, known.latest))) {
			read.push(row);
			if ((known.seen?.[identity(resource, row)] ?? -1) < row.version) changed.push(row);
		}
		Object.assign(state, position(name, resource, read, known.latest));
		return first ? null : output(changed);
	}
}

function output(found: Row[]): INodeExecutionData[][] | null {
	return found.length === 0 ? null : [found.map((json) => ({ json }))];
}

async function newest(caller: IPollFunctions, resource: Resource): Promise<Row[]> {
	for await (const row of rows(caller, resource.path, { ...deleted(resource), sort: '-updated_at', limit: 1 })) return [row];
	return [];
}

function since(resource: Resource, latest: string | undefined): IDataObject {
	const query: IDataObject = { ...deleted(resource), sort: 'updated_at', limit: PAGE_SIZE };
	if (latest !== undefined) query.updated_since = new Date(Date.parse(latest) - OVERLAP_MS).toISOString();
	return query;
}

function deleted(resource: Resource): IDataObject {
	return resource.tombstones ? { include_deleted: true } : {};
}

function position(name: string, resource: Resource, read: Row[], before: string | undefined): Position {
	const latest = read.at(-1)?.updated_at ?? before;
	const from = latest === undefined ? 0 : Date.parse(latest) - OVERLAP_MS;
	const again = read.filter((row) => Date.parse(row.updated_at) >= from);
	return { resource: name, latest, seen: Object.fromEntries(again.map((row) => [identity(resource, row), row.version])) };
}

/** A tombstone of a stock level has the ID of its variant. */
function identity(resource: Resource, row: Row): string {
	return String(row[resource.key] ?? row.id);
}
