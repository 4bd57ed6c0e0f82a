"""tmlang: a declarative language for adversarial-robustness claims, and the tools that check and run them."""

__version__ = "0.1.0"
