"""What every page of the portal uses: declarations, dispatch, forms, rendering and lists. It knows no page."""
