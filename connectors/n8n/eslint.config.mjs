import { config } from '@n8n/node-cli/eslint';

export default [
	...config,
	{
		files: ['package.json'],
		rules: {
			// Like all of Stoa, the package has the Apache license; n8n asks for MIT only where n8n itself lists a package.
			'n8n-nodes-base/community-package-json-license-not-default': 'off',
		},
	},
];
