"""`stoa mcp`: a Model Context Protocol server, through which an agent uses the API with an app's credentials."""
