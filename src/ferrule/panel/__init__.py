"""The panel: web pages over the service's own API, or over one person's records. Nothing here decides what is shown."""
