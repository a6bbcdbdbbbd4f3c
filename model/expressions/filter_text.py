"""Filters as people type them: ``ts >= '2026-01-01' and country in ('FI', 'SE')``.

A small part of SQL's WHERE, with SQL's meaning: what compares with null is not matched, negated or not. (Iceberg's own
`not-eq` and `not-in` match null, so the text gets a `not-null` beside them, as the expressions spec asks of engines.)

    filter     = filter OR filter | filter AND filter | NOT filter | ( filter ) | TRUE | FALSE | predicate
    predicate  = term (= | == | != | <> | < | <= | > | >=) constant          also with the two sides exchanged
               | term [NOT] IN ( constant, … )  | term [NOT] BETWEEN constant AND constant
               | term [NOT] LIKE 'prefix%'      | term [NOT] STARTS WITH 'prefix'
               | term IS [NOT] NULL             | term IS [NOT] NAN
    term       = name | transform(name) | bucket[16](name) | bucket(16, name)
    name       = word | "any text" | `any text`, nested fields with dots
    constant   = 12 | -1.5 | 2e9 | 'text' | TRUE | FALSE | X'00ff' | DATE '2026-01-01' | TIMESTAMP '…' | TIMESTAMPTZ '…'
               | TIME '…' | UUID '…'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from firn.model.errors import InvalidInput
from firn.model.expressions.binding import EXPRESSION_DEPTH_MAX
from firn.model.expressions.constants import Constant, constant
from firn.model.expressions.negation import rewrite_not
from firn.model.expressions.operand_json import VALUES_MAX
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    And,
    Expression,
    Operation,
    Or,
    Predicate,
    Term,
    and_,
    not_,
    not_null,
    or_,
    predicate,
    ref,
    transform_of,
    transformed,
)
from firn.model.transforms import UnknownTransform
from firn.model.types import DECIMAL_PRECISION_MAX, PrimitiveType
from firn.model.values import value_from_json

FILTER_CHARS_MAX: Final = 100_000
"""Characters in one filter text."""

NUMBER_CHARS_MAX: Final = 400
"""Characters in one number."""

_TOKENS: Final = re.compile(
    r"""(?P<blank>\s+)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<bytes>[xX]'[0-9a-fA-F]*')
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
    |(?P<word>[^\W\d]\w*)
    |(?P<symbol><=|>=|<>|!=|==|[=<>(),.\[\]+-])""",
    re.VERBOSE,
)
_KEYWORDS: Final = frozenset(
    {"and", "or", "not", "in", "is", "null", "nan", "between", "like", "starts", "with", "true", "false"}
)
_COMPARED: Final[Mapping[str, Operation]] = {
    "=": "eq", "==": "eq", "!=": "not-eq", "<>": "not-eq", "<": "lt", "<=": "lt-eq", ">": "gt", ">=": "gt-eq",
}  # fmt: skip
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_TYPED: Final = frozenset({"date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "uuid"})
_UNMATCHED_BY_NULL: Final = frozenset({"not-eq", "not-in", "not-starts-with"})


def filter_from_text(text: str, *, where: str = "filter") -> Expression:
    """The unbound expression of a filter text.

    Raises InvalidInput with the line and column of what it could not read, for texts of more than FILTER_CHARS_MAX
    characters, sets of more than VALUES_MAX constants and more than EXPRESSION_DEPTH_MAX parentheses and NOTs.
    """
    if len(text) > FILTER_CHARS_MAX:
        raise InvalidInput(f"{len(text)} characters, the limit is {FILTER_CHARS_MAX}", where=where)
    parser = _Parser(text, where)
    expr = parser.disjunction()
    parser.end()
    return _without_nulls(rewrite_not(expr))


def _without_nulls(expr: Expression) -> Expression:
    match expr:
        case And(children):
            return and_(*map(_without_nulls, children))
        case Or(children):
            return or_(*map(_without_nulls, children))
        case Predicate(op, term) if op in _UNMATCHED_BY_NULL:
            return and_(not_null(term), expr)
    return expr


class _Token(msgspec.Struct, frozen=True):
    """A piece of the text; words are lower-cased in `word`, which is empty for other kinds."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""


class _Parser:
    """A recursive descent over the tokens; one method for each rule of the grammar."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._depth = 0
        self._position = 0
        self._tokens = self._split()

    def _split(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self._text):
            found = _TOKENS.match(self._text, at)
            if found is None:
                what = "an unfinished quotation" if self._text[at] in "'\"`" else f"{self._text[at]!r}"
                raise self._error(f"cannot read {what}", at)
            assert found.lastgroup is not None
            if found.lastgroup != "blank":
                tokens.append(_Token(found.lastgroup, found[0], at))
            at = found.end()
        return [*tokens, _Token("end", "the end", len(self._text))]

    # -- tokens -------------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        token = self._next
        self._position += token.kind != "end"
        return token

    def _accept(self, *wanted: str) -> bool:
        """Take the next token if it is one of these words or symbols."""
        token = self._next
        if token.word in wanted or (token.kind == "symbol" and token.text in wanted):
            self._take()
            return True
        return False

    def _expect(self, wanted: str) -> None:
        if not self._accept(wanted):
            raise self._unexpected(wanted.upper())

    def _unexpected(self, wanted: str) -> InvalidInput:
        token = self._next
        return self._error(f"expected {wanted}, found {token.text[:40]}", token.at)

    def _error(self, message: str, at: int, hint: str | None = None) -> InvalidInput:
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        place = f"line {line}, column {column}" if "\n" in self._text else f"column {column}"
        return InvalidInput(f"{message} at {place}", where=self._where, hint=hint)

    def end(self) -> None:
        if self._next.kind != "end":
            raise self._unexpected("AND, OR or the end")

    # -- filters ------------------------------------------------------------------------------------------------------

    def disjunction(self) -> Expression:
        children = [self._conjunction()]
        while self._accept("or"):
            children.append(self._conjunction())
        return or_(*children)

    def _conjunction(self) -> Expression:
        children = [self._negation()]
        while self._accept("and"):
            children.append(self._negation())
        return and_(*children)

    def _negation(self) -> Expression:
        if self._accept("not"):
            return not_(self._deeper(self._negation))
        if self._accept("("):
            inner = self._deeper(self.disjunction)
            self._expect(")")
            return inner
        return self._predicate()

    def _deeper(self, rule: Callable[[], Expression]) -> Expression:
        self._depth += 1
        if self._depth > EXPRESSION_DEPTH_MAX:
            raise self._error(f"more than {EXPRESSION_DEPTH_MAX} levels deep", self._next.at)
        expr = rule()
        self._depth -= 1
        return expr

    def _predicate(self) -> Expression:
        if self._starts_constant():
            return self._constant_first()
        term = self._term()
        if self._next.text in _COMPARED:
            return predicate(_COMPARED[self._take().text], term, [self._constant()])
        if self._accept("is"):
            negated = self._accept("not")
            if not self._accept("null", "nan"):
                raise self._unexpected("NULL or NAN")
            test: Operation = "is-null" if self._tokens[self._position - 1].word == "null" else "is-nan"
            return _negated_if(negated, predicate(test, term))
        negated = self._accept("not")
        return _negated_if(negated, self._matching(term))

    def _constant_first(self) -> Expression:
        first = self._next
        value = self._constant()
        symbol = self._next.text
        if symbol in _COMPARED:
            self._take()
            return predicate(_COMPARED[_MIRRORED.get(symbol, symbol)], self._term(), [value])
        if isinstance(value.value, bool):
            return TRUE if value.value else FALSE
        raise self._error(f"a comparison begins with a column, or goes on after {first.text[:40]}", self._next.at)

    def _matching(self, term: Term) -> Expression:
        """IN, BETWEEN, LIKE and STARTS WITH, which may have a NOT before them."""
        if self._accept("in"):
            return predicate("in", term, self._constants())
        if self._accept("between"):
            low = self._constant()
            self._expect("and")
            return and_(predicate("gt-eq", term, [low]), predicate("lt-eq", term, [self._constant()]))
        if self._accept("starts"):
            self._expect("with")
            return predicate("starts-with", term, [self._string("a prefix in quotes")])
        if self._accept("like"):
            return self._like(term)
        raise self._unexpected("a comparison")

    def _like(self, term: Term) -> Expression:
        at = self._next.at
        pattern = self._string("a pattern in quotes")
        prefix = pattern.removesuffix("%")
        if set(prefix) & set("%_\\"):
            raise self._error("LIKE with more than a % at the end", at, "STARTS WITH takes any prefix as it is")
        return predicate("starts-with" if prefix != pattern else "eq", term, [prefix])

    # -- terms --------------------------------------------------------------------------------------------------------

    def _term(self) -> Term:
        at = self._next.at
        name = self._name()
        if self._accept("["):
            width = self._width()
            self._expect("]")
            self._expect("(")
            return self._transform(f"{name}[{width}]", at)
        if not self._accept("("):
            return ref(name)
        if self._next.kind == "number":
            width = self._width()
            self._expect(",")
            return self._transform(f"{name}[{width}]", at)
        return self._transform(name, at)

    def _transform(self, text: str, at: int) -> Term:
        column = self._name()
        self._expect(")")
        if isinstance(transform_of(text, where=self._where), UnknownTransform):
            raise self._error(f"{text[:40]} is not a partition transform", at)
        return transformed(text, column)

    def _width(self) -> str:
        token = self._next
        if not token.text.isdecimal():
            raise self._unexpected("a whole number")
        return self._take().text

    def _name(self) -> str:
        parts = [self._name_part()]
        while self._accept("."):
            parts.append(self._name_part())
        return ".".join(parts)

    def _name_part(self) -> str:
        token = self._next
        if token.kind == "quoted":
            self._take()
            quote = token.text[0]
            return token.text[1:-1].replace(quote * 2, quote)
        if token.kind != "word" or token.word in _KEYWORDS:
            raise self._unexpected("a column")
        return self._take().text

    # -- constants ----------------------------------------------------------------------------------------------------

    def _starts_constant(self) -> bool:
        token = self._next
        if token.word in _TYPED:
            return self._tokens[self._position + 1].kind == "text"
        return token.kind in {"number", "text", "bytes"} or token.text in {"+", "-"} or token.word in {"true", "false"}

    def _constants(self) -> list[Constant]:
        self._expect("(")
        found = [self._constant()]
        while self._accept(","):
            found.append(self._constant())
            if len(found) > VALUES_MAX:
                raise self._error(f"more than {VALUES_MAX} constants", self._next.at)
        self._expect(")")
        return found

    def _constant(self) -> Constant:
        if not self._starts_constant():
            if self._next.word in {"null", "nan"}:
                raise self._error(f"{self._next.text} is not a constant", self._next.at, "use IS NULL or IS NAN")
            raise self._unexpected("a constant")
        token = self._take()
        match token.kind:
            case "text":
                return Constant(_unquoted(token.text))
            case "bytes":
                return self._typed("binary", token.text[2:-1], token.at)
            case "number":
                return self._number(token, negative=False)
        if token.word in {"true", "false"}:
            return Constant(token.word == "true")
        if token.word:
            return self._typed(token.word, _unquoted(self._take().text), token.at)
        if self._next.kind != "number":
            raise self._unexpected("a number")
        return self._number(self._take(), negative=token.text == "-")

    def _typed(self, name: str, text: str, at: int) -> Constant:
        type = PrimitiveType(name)
        try:
            return Constant(value_from_json(type, text, lenient=True), type)
        except InvalidInput as exc:
            raise self._error(exc.message, at, exc.hint) from None

    def _number(self, token: _Token, *, negative: bool) -> Constant:
        text = f"-{token.text}" if negative else token.text
        if len(text) > NUMBER_CHARS_MAX:
            raise self._error(f"a number of more than {NUMBER_CHARS_MAX} characters", token.at)
        if "e" in text.lower():
            return constant(float(text))
        if "." not in text:
            return Constant(int(text))
        return constant(Decimal(text) if len(text) <= DECIMAL_PRECISION_MAX else float(text))

    def _string(self, wanted: str) -> str:
        if self._next.kind != "text":
            raise self._unexpected(wanted)
        return _unquoted(self._take().text)


def _negated_if(negated: bool, expr: Expression) -> Expression:  # noqa: FBT001 - reads as its name
    return not_(expr) if negated else expr


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
