"""The portal: server-rendered pages for developers, merchants and operators."""
