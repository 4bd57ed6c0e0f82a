"""Text to trees and back: lexer, table, nodes, what is said of text that is no spec, and the canonical layout."""

from tmlang.syntax.engine import ParseResult, parse

__all__ = ["ParseResult", "parse"]
