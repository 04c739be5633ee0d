import type { Icon, ICredentialType, INodeProperties } from 'n8n-workflow';

export class StoaOAuth2Api implements ICredentialType {
	name = 'stoaOAuth2Api';

	extends = ['oAuth2Api'];

	displayName = 'Stoa OAuth2 API';

	icon: Icon = { light: 'file:../icons/stoa.svg', dark: 'file:../icons/stoa.dark.svg' };

	documentationUrl = 'https://stoa.example/docs/guides/n8n';

	properties: INodeProperties[] = [
		{
			displayName: 'Store URL',
			name: 'baseUrl',
			type: 'string',
			default: '',
			required: true,
			placeholder: 'https://shop.example.com',
			description: 'The address of the store, without /api',
		},
		{
			displayName: 'Grant Type',
			name: 'grantType',
			type: 'hidden',
			default: 'clientCredentials',
		},
		{
			displayName: 'Access Token URL',
			name: 'accessTokenUrl',
			type: 'hidden',
			default: '={{$self["baseUrl"].replace(/\\/+$/, "")}}/oauth/token',
		},
		{
			displayName: 'Scope',
			name: 'scope',
			type: 'hidden',
			default: '',
		},
		{
			displayName: 'Authentication',
			name: 'authentication',
			type: 'hidden',
			default: 'header',
		},
	];
}
