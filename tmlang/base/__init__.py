"""Ground floor: source positions and exact numbers. Imports nothing of tmlang."""
