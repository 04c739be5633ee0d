"""Code snippets for calling the API: the `.env` file and curl commands."""

import msgspec

from stoa.access.addresses import YOUR_STORE, base_url
from stoa.rest.dispatch import PREFIX

_EXTRACT_TOKEN = 'sed -E \'s/.*"access_token": ?"([^"]+)".*/\\1/\''  # noqa: S105


class Snippets(msgspec.Struct, frozen=True):
    """Snippets for one app and, if it is installed somewhere, one store."""

    origin: str
    client_id: str
    client_secret: str = ""
    handle: str = ""

    @property
    def auth_url(self) -> str:
        return f"{self.origin}/oauth/token"

    @property
    def base_url(self) -> str:
        return base_url(self.origin, self.handle) if self.handle else ""

    @property
    def env_file(self) -> str:
        """The `.env` file with the variables that the quickstart, the SDK and `stoa listen` read."""
        variables = {
            "STOA_BASE_URL": base_url(self.origin, self.handle or YOUR_STORE),
            "STOA_AUTH_URL": self.auth_url,
            "STOA_CLIENT_ID": self.client_id,
            "STOA_CLIENT_SECRET": self.client_secret or "YOUR-SECRET",
        }
        return "".join(f"{name}={value}\n" for name, value in variables.items())

    @property
    def token_command(self) -> str:
        """A command that gets a token, with the credentials in it."""
        return f"curl -s -u '{self.client_id}:{self.client_secret}' -d grant_type=client_credentials {self.auth_url}"

    @property
    def call_command(self) -> str:
        """A command with the credentials in it that lists products or, without a store, gets a token."""
        if not self.handle:
            return self.token_command
        header = f'-H "Authorization: Bearer $({self.token_command} | {_EXTRACT_TOKEN})"'
        return f"curl -s {header} '{self.base_url}{PREFIX}/products?limit=2'"

    @property
    def env_commands(self) -> str:
        """Commands that read the credentials from the `.env` file and list products."""
        credentials = '"$STOA_CLIENT_ID:$STOA_CLIENT_SECRET" -d grant_type=client_credentials "$STOA_AUTH_URL"'
        token = f"TOKEN=$(curl -s -u {credentials} | {_EXTRACT_TOKEN})"
        call = f'curl -s -H "Authorization: Bearer $TOKEN" "$STOA_BASE_URL{PREFIX}/products?limit=2"'
        return f"set -a; source .env; set +a\n{token}\n{call}"
