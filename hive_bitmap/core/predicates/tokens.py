"""Split the text of a predicate into tokens, as Spark's lexer does.

The tokens are then read one by one. The rules are in
https://github.com/apache/spark/blob/v4.0.0/sql/api/src/main/antlr4/org/apache/spark/sql/catalyst/parser/SqlBaseLexer.g4.
A general SQL tokenizer is not used, because it differs in ways that change the boolean structure: `show = 1 AND b = 2`
(SHOW as the beginning of a statement), `-- x \\` (a comment that continues in the next line), `a !> 5`. If the way to
split a text depends on the session's settings or the version of Spark, the last token has the kind `ambiguous`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hive_bitmap.core.columns import KeyText
from hive_bitmap.errors import HiveBitmapError, InvalidPredicate

_SPACE = r"[ \t\n\f\r\x0b\xa0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]"
_TOKEN = re.compile(
    rf"""(?P<space>(?:{_SPACE}+|--[^\r\n\\]*|/\*(?!\+)(?:(?!/\*|\*/).)*\*/)+)
    |(?P<raw>r'[^']*'|r"[^"]*"|x'[0-9a-f]*')
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<ambiguous>--|/\*|://)
    |(?P<number>(?:[0-9]+[lsy]|(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:e[+-]?[0-9]+)?(?:bd|[df])?)(?!\w))
    |(?P<word>\w+)
    |(?P<symbol><=>|>>>|<>|!=|==|<=|>=|!>|!<|<<|>>|\|\||::|->|=>|[-+*/%=<>!&|^~()\[\],.?:{{}};@])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class Token(NamedTuple):
    """A token of a predicate.

    `kind` is word, name (in backquotes, or after a dot), number, string, raw (a string such as r'a' or x'0f'), symbol,
    ambiguous or end. `start` is the offset of the token in the text; -1 for the kind end.
    """

    kind: str
    text: str
    start: int
    key: str  # a word or symbol in upper case; empty for other kinds, so that 'AND' in quotes is not an AND

    @property
    def end(self) -> int:
        """The offset after the last character."""
        return self.start + len(self.text)

    @property
    def name(self) -> str:
        """The name that a word or a name in backquotes stands for."""
        return self.text[1:-1].replace("``", "`") if self.text[0] == "`" else self.text


_END = Token("end", "<EOF>", -1, "")


class Tokens:
    """The tokens of a text, and the position `at` of the next token.

    A word or symbol matches a token if it equals the token's `key`. In a `key`, words are in upper case.
    """

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, tokenize(text), 0

    @property
    def token(self) -> Token:
        """The next token; a token of kind `end` at the end of the text."""
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    @property
    def offset(self) -> int:
        """The offset of the next token in the text."""
        return len(self.text) if self.token is _END else self.token.start

    def next_is(self, *words: str) -> bool:
        """Return whether these words or symbols come next, in this order."""
        return [token.key for token in self.tokens[self.at : self.at + len(words)]] == [*words]

    def accept(self, *words: str) -> bool:
        """Consume these words or symbols if they come next; return whether they did."""
        if not self.next_is(*words):
            return False
        self.at += len(words)
        return True

    def advance(self) -> Token:
        """Consume and return the next token, of any kind."""
        token = self.token
        self.at += 1
        return token

    def error(self, reason: str) -> HiveBitmapError:
        """Return an error with this reason.

        The error shows the line and the column of the next token.
        """
        return InvalidPredicate.at(self.text, self.offset, reason)


def tokenize(text: str) -> list[Token]:
    """Return the tokens, without white space and comments.

    Raises InvalidPredicate if a quote is not closed.

    >>> [token.text for token in tokenize("a<=-1 AND `b c`")]
    ['a', '<=', '-', '1', 'AND', '`b c`']
    """
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None and text[at] in "'\"`":
            raise InvalidPredicate.at(text, at, f"the quote {text[at]} is not closed")
        if match is None or match.lastgroup == "ambiguous":
            return [*tokens, Token("ambiguous", text[at], at, "")]
        at = match.end()
        if match.lastgroup != "space":
            tokens.append(_token(match, tokens))
    return tokens


def _token(match: re.Match[str], before: list[Token]) -> Token:
    kind, text = str(match.lastgroup), match.group()
    if kind == "word" and before and before[-1].key == ".":
        kind = "name"  # a word after a dot is not a keyword: `s.end`
    return Token(kind, text, match.start(), text.upper() if kind in ("word", "symbol") else "")


def key_text(text: str) -> KeyText | None:
    """Split `expression AS name` into the expression and the name.

    Return None for other texts.

    >>> key_text("date_trunc('HOUR', ts) AS Hour")
    KeyText(sql="date_trunc('HOUR', ts)", alias='hour')
    >>> key_text("CAST(ts AS DATE)"), key_text("ts")
    (None, None)
    """
    try:
        tokens = tokenize(text)
    except InvalidPredicate:
        return None
    depth = sum((token.key in ("(", "[")) - (token.key in (")", "]")) for token in tokens)
    if len(tokens) < 3 or depth or tokens[-2].key != "AS" or tokens[-1].kind not in ("word", "name"):
        return None
    return KeyText(text[: tokens[-2].start].strip(), tokens[-1].name.lower())


def require_characters(text: str) -> None:
    """Raise InvalidPredicate for an unpaired surrogate.

    Python decodes a command-line argument that is not UTF-8 to unpaired surrogates (`surrogateescape`), and Java cannot
    encode unpaired surrogates.
    """
    if surrogate := re.search("[\ud800-\udfff]", text):
        raise InvalidPredicate.at(text, surrogate.start(), "half a surrogate pair is not a character")
