"""How a developer calls the API, ready to paste: the environment file and the lines of curl."""

import msgspec

from stoa.rest.dispatch import PREFIX

_TOKEN = 'sed -E \'s/.*"access_token": ?"([^"]+)".*/\\1/\''  # noqa: S105


class Calling(msgspec.Struct, frozen=True):
    """Where the service is, which store is called, and as which app."""

    origin: str
    client_id: str
    client_secret: str = ""
    handle: str = ""

    @property
    def auth_url(self) -> str:
        return f"{self.origin}/oauth/token"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/stores/{self.handle}" if self.handle else ""

    @property
    def environment(self) -> str:
        """The `.env` file: four variables that the quickstart, the SDK and `stoa listen` read."""
        lines = {
            "STOA_BASE_URL": self.base_url or f"{self.origin}/stores/YOUR-STORE",
            "STOA_AUTH_URL": self.auth_url,
            "STOA_CLIENT_ID": self.client_id,
            "STOA_CLIENT_SECRET": self.client_secret or "the-secret-you-kept",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    @property
    def token_line(self) -> str:
        """One line that gets a token, with the credentials in it."""
        return f"curl -s -u '{self.client_id}:{self.client_secret}' -d grant_type=client_credentials {self.auth_url}"

    @property
    def line(self) -> str:
        """One line that works as pasted: it lists products where there is a store, and gets a token where there is none."""
        if not self.handle:
            return self.token_line
        header = f'-H "Authorization: Bearer $({self.token_line} | {_TOKEN})"'
        return f"curl -s {header} '{self.base_url}{PREFIX}/products?limit=2'"

    @property
    def kept_lines(self) -> str:
        """The same for somebody who keeps the secret in the environment."""
        asking = '"$STOA_CLIENT_ID:$STOA_CLIENT_SECRET" -d grant_type=client_credentials "$STOA_AUTH_URL"'
        lines = ["set -a; source .env; set +a", f"TOKEN=$(curl -s -u {asking} | {_TOKEN})"]
        call = f'curl -s -H "Authorization: Bearer $TOKEN" "$STOA_BASE_URL{PREFIX}/products?limit=2"'
        return "\n".join([*lines, call])
