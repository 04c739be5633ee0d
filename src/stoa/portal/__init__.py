"""The portal: pages where people register apps, open stores and decide who may do what."""
