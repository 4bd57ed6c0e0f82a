"""The waist: a typed plan that everything behind it executes, and nothing behind it looks past."""
