"""What is said to people about a spec: the model of a diagnostic, the registry of codes, and how both are shown."""
