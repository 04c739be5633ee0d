import {
	NodeApiError,
	sleep,
	type IDataObject,
	type IExecuteFunctions,
	type IHttpRequestMethods,
	type IPollFunctions,
	type JsonObject,
} from 'n8n-workflow';

type Caller = IExecuteFunctions | IPollFunctions;

export interface Row extends IDataObject {
	updated_at: string;
	version: number;
}

interface Problem {
	code: string;
	title: string;
	detail?: string;
	retryable: boolean;
	errors?: Array<{ pointer: string; detail: string }>;
}

interface Page {
	data: Row[];
	meta: { next_cursor: string | null };
}

const RETRIES = 5;
/** The largest page of a list. */
export const PAGE_SIZE = 250;

/** Send one request as the app, and repeat it as the guide on errors says. A write needs a key, so that repeating it is safe. */
export async function request(
	caller: Caller,
	method: IHttpRequestMethods,
	path: string,
	options: { qs?: IDataObject; body?: IDataObject; key?: string } = {},
): Promise<IDataObject> {
	const { baseUrl } = await caller.getCredentials<{ baseUrl: string }>('stoaOAuth2Api');
	for (let attempt = 0; ; attempt++) {
		try {
			return (await caller.helpers.httpRequestWithAuthentication.call(caller, 'stoaOAuth2Api', {
				method,
				url: `${baseUrl.replace(/\/+$/, '')}/api/v3/app${path}`,
				qs: options.qs,
				body: options.body,
				headers: options.key === undefined ? {} : { 'Idempotency-Key': options.key },
				json: true,
			})) as IDataObject;
		} catch (error) {
			const failure = new NodeApiError(caller.getNode(), error as JsonObject);
			const problem = failure.context.data as Problem | undefined;
			if (problem?.code === undefined) throw failure;
			if (!problem.retryable || attempt === RETRIES) {
				failure.message = problem.title;
				failure.description = explain(problem);
				throw new NodeApiError(caller.getNode(), failure as unknown as JsonObject);
			}
		}
		await sleep(500 * 2 ** attempt * (0.75 + Math.random() / 2));
	}
}

function explain(problem: Problem): string {
	const faults = (problem.errors ?? []).map((each) => `${each.pointer}: ${each.detail}`);
	return [problem.detail ?? problem.code, ...faults].join('\n');
}

/** The rows of a list, page after page. */
export async function* rows(caller: Caller, path: string, query: IDataObject): AsyncGenerator<Row> {
	let qs = query;
	for (;;) {
		const page = (await request(caller, 'GET', path, { qs })) as unknown as Page;
		yield* page.data;
		if (page.meta.next_cursor === null) return;
		qs = { cursor: page.meta.next_cursor };
	}
}
