// Runs the built nodes in n8n's own contexts, with n8n's HTTP client and OAuth 2.0. Reads one command from each line of stdin, and
// writes one result line for each. The service around them that n8n's server would be is: the node types, and stored credentials.
const { createRequire } = require('node:module');
const path = require('node:path');
const readline = require('node:readline');

const folder = process.argv[2];
const load = createRequire(path.join(folder, 'package.json'));
load('reflect-metadata');
const { ExecuteContext, PollContext } = load('n8n-core');
const { ICredentialsHelper, NodeHelpers, Workflow } = load('n8n-workflow');

const { n8n } = load('./package.json');
const instances = (files) => files.map((file) => new (Object.values(load(`./${file}`))[0])());
const nodes = Object.fromEntries(instances(n8n.nodes).map((each) => [each.description.name, each]));
const credentialTypes = Object.fromEntries(instances(n8n.credentials).map((each) => [each.name, each]));
const nodeTypes = {
	getByName: (name) => nodes[name],
	getByNameAndVersion: (name) => nodes[name],
	getKnownTypes: () => nodes,
};

// As n8n's server does it: defaults of the type, then expressions that refer to the other fields.
class Credentials extends ICredentialsHelper {
	stored = {};

	getParentTypes(name) {
		return credentialTypes[name].extends;
	}

	isCredentialUsableByNode() {
		return true;
	}

	async getDecrypted(_data, _credentials, name) {
		const { properties } = credentialTypes[name];
		const known = NodeHelpers.getNodeParameters(properties, this.stored, true, false, null, null);
		const data = { ...known, ...this.stored };
		const node = { id: '1', name: 'Mock', type: 'stoa', typeVersion: 1, position: [0, 0], parameters: data };
		const workflow = new Workflow({ nodes: [node], connections: {}, active: false, nodeTypes });
		return workflow.expression.getComplexParameterValue(node, data, 'internal', {}, undefined, undefined, data);
	}

	async updateCredentialsOauthTokenData(_credentials, _name, data) {
		this.stored = { ...this.stored, oauthTokenData: data.oauthTokenData };
	}

	async runPreAuthentication() {
		return undefined;
	}
}

const credentialsHelper = new Credentials();

async function run(command) {
	if (command.credentials) {
		credentialsHelper.stored = command.credentials;
		return {};
	}
	const node = {
		id: 'a-node',
		name: 'Node',
		type: command.node,
		typeVersion: 1,
		position: [0, 0],
		parameters: command.parameters,
		credentials: { stoaOAuth2Api: { id: '1', name: 'A store' } },
		...(command.continueOnFail ? { onError: 'continueRegularOutput' } : {}),
	};
	const staticData = { 'node:Node': command.state ?? {} };
	const workflow = new Workflow({ id: 'w1', nodes: [node], connections: {}, active: true, nodeTypes, staticData });
	const additionalData = { credentialsHelper, executionId: command.executionId ?? '1', currentNodeParameters: undefined };
	const kind = nodes[command.node];
	const mode = command.mode ?? 'trigger';
	const placed = workflow.getNode('Node'); // with the defaults of its parameters
	if (kind.poll) {
		const context = new PollContext(workflow, placed, additionalData, mode, 'activate');
		const output = await kind.poll.call(context);
		return { items: output?.[0].map((each) => each.json) ?? null, state: workflow.getStaticData('node', placed) };
	}
	const input = command.items ?? [{ json: {} }];
	const executeData = { data: { main: [input] }, node: placed, source: null };
	const runData = { resultData: { runData: {} }, executionData: { nodeExecutionStack: [] } };
	const context = new ExecuteContext(
		workflow, placed, additionalData, mode, runData, command.runIndex ?? 0, input, { main: [input] }, executeData, [],
	);
	const [items] = await kind.execute.call(context);
	return { items: items.map((each) => each.json) };
}

(async () => {
	for await (const line of readline.createInterface({ input: process.stdin })) {
		let answer;
		try {
			answer = await run(JSON.parse(line));
		} catch (error) {
			answer = { error: error.message, description: error.description ?? null, stack: error.stack };
		}
		process.stdout.write(`${JSON.stringify(answer)}\n`);
	}
	process.exit(0);
})();
