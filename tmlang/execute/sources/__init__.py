"""Where models and data come from: files beside the spec, verified before they are opened, opened without pickle."""
