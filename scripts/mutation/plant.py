"""Plants mutants into C++ text: every one behind stagger_mutants::mutant<ID>() (mutant.hpp).

No parser: tokens, brackets and the layout that clang-format gives (a binary operator has a space on
both sides, a template's bracket has none). What does not compile is taken out again by its line, so
that lines stay where they are: no edit has a line break.
"""

import re

TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<directive>(?<![^\n])\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<number>\d(?:'?[\w.]|(?<=[eE])[+-])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|&&|\|\||[<>=!+\-*/%&|^]=|.)
""", re.X | re.S)

COMPARISONS = {"<": ("Less", "<=", ">="), "<=": ("LessEqual", "<", ">"),
               ">": ("Greater", ">=", "<="), ">=": ("GreaterEqual", ">", "<"),
               "==": ("Equal", None, "!="), "!=": ("NotEqual", None, "==")}
ARITHMETIC = {"+": ("Plus", "-"), "-": ("Minus", "+"), "*": ("Times", "+"), "/": ("Over", "*"),
              "%": ("Modulo", "*")}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
KEYWORDS = set("""return const constexpr auto using static inline if else for while do switch case
    default break continue template typename class struct enum union namespace public private
    protected friend explicit operator throw try catch new delete extern constinit static_assert
    goto bool int char double float void unsigned signed long short""".split())
# Lines whose mutants nothing can see, or that only a broken promise reaches.
SKIPPED = re.compile(r"\bSTAGGER_EXPECTS\b|\bstatic_assert\b|\.reserve\(|\btemplate\b|\brequires\b"
                     r"|^\s*case\b|\boperator\b|\bstatic_cast<void>|\bnoexcept\(")
PAIRS = {"(": ")", "[": "]", "{": "}"}


class Token:
    __slots__ = ("kind", "text", "begin", "end", "spaced", "mate", "line")

    def __init__(self, kind, text, begin, end, spaced, line):
        self.kind, self.text, self.begin, self.end = kind, text, begin, end
        self.spaced, self.line = spaced, line  # spaced: white space before it
        self.mate = None


class Mutant:
    """One change: where, and what it makes of the line."""

    def __init__(self, number, path, line, what, shown):
        self.number, self.path, self.line, self.what, self.shown = number, path, line, what, shown


def tokens_of(text):
    tokens, line, spaced = [], 1, True
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "mark" else "string"
        piece = match.group()
        if kind in ("space", "comment", "directive"):
            spaced = True
        else:
            tokens.append(Token(kind, piece, match.start(), match.end(), spaced, line))
            spaced = False
        line += piece.count("\n")
    open_at = []
    for index, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        if token.text in PAIRS:
            open_at.append(index)
        elif token.text in PAIRS.values() and open_at:
            token.mate = open_at.pop()
            tokens[token.mate].mate = index
    return tokens


class Planter:
    def __init__(self, path, text, first, dropped, only=None):
        """`only` are the numbers to plant; the others' lines stay as they are."""
        self.path, self.text, self.next, self.dropped = path, text, first, dropped
        self.only = only
        self.tokens = tokens_of(text)
        self.lines = text.split("\n")
        self.edits = []  # (begin, end, before, after): around text[begin:end], which stays
        self.mutants = []
        self.constant = self.constants()

    # What a mutant is planted by.

    def take(self, token, count):
        """The first of `count` numbers in a row, or None on a line that was dropped."""
        line = self.lines[token.line - 1]
        first = self.next
        self.next += count  # numbers do not depend on what was dropped
        if token.line in self.dropped or SKIPPED.search(line):
            return None
        if self.only is not None and self.only.isdisjoint(range(first, self.next)):
            return None
        return first

    def note(self, number, token, what, begin, end, replacement):
        start = self.text.rfind("\n", 0, begin) + 1
        stop = self.text.find("\n", end)
        stop = len(self.text) if stop < 0 else stop
        changed = self.text[start:begin] + replacement + self.text[end:stop]
        self.mutants.append(Mutant(number, self.path, token.line, what,
                                   (self.text[start:stop], changed)))

    def around(self, begin, end, before, after):
        self.edits.append((begin, end, before, after))

    def instead(self, token, text):
        self.edits.append((token.begin, token.end, None, text))

    # The sites.

    def run(self):
        for index, token in enumerate(self.tokens):
            if index in self.constant or index + 2 >= len(self.tokens) or index == 0:
                continue
            if token.kind == "sign":
                self.sign(index, token)
            elif token.kind == "number":
                self.number(token)
            elif token.kind == "word":
                self.word(index, token)
        return self.result()

    def constants(self):
        """Indices of tokens in constants' initialisers and in template arguments."""
        constant = set()
        index = 0
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.text in ("constexpr", "constinit", "enum"):
                end = index
                while end < len(self.tokens) and self.tokens[end].text not in (";", "{", "=", "("):
                    end += 1
                function = end < len(self.tokens) and self.tokens[end].text == "("
                conditional = index > 0 and self.tokens[index - 1].text == "if"
                if not function and not conditional:
                    while end < len(self.tokens) and self.tokens[end].text != ";":
                        end = (self.tokens[end].mate if self.tokens[end].text in PAIRS and
                               self.tokens[end].mate else end) + 1
                elif conditional and self.tokens[end].mate:
                    end = self.tokens[end].mate
                constant.update(range(index, end))
                index = max(end, index + 1)
                continue
            if token.text == "<" and not token.spaced and self.tokens[index - 1].kind == "word":
                end, depth = index + 1, 1
                while end < len(self.tokens) and depth and self.tokens[end].text not in ";{":
                    depth += {"<": 1, ">": -1}.get(self.tokens[end].text, 0)
                    end += 1
                if depth == 0:
                    constant.update(range(index, end))
            index += 1
        return constant

    def binary(self, index):
        """A space on both sides: no sign of a number, no pointer, no template's bracket."""
        after = self.tokens[index + 1]
        before = self.tokens[index - 1]
        return (self.tokens[index].spaced and after.spaced and
                (before.kind != "sign" or before.text in (")", "]", "}")) and
                before.text not in ("return", "operator"))

    def sign(self, index, token):
        if token.text in COMPARISONS and self.binary(index):
            self.comparison(token)
        elif token.text in ARITHMETIC and self.binary(index):
            self.arithmetic(index, token)
        elif token.text in ("&&", "||") and self.binary(index):
            self.terms(index, token)
        elif token.text == "!" and not self.tokens[index + 1].spaced:
            self.negation(token)
        elif token.text == "?" and self.tokens[index - 1].text != "operator":
            self.choice(index, token)
        elif token.text == "(":
            self.call(index)

    def comparison(self, token):
        name, boundary, opposite = COMPARISONS[token.text]
        others = [opposite, boundary] if boundary else [opposite]
        first = self.take(token, len(others))
        if first is None:
            return
        self.instead(token, f"{token.text} ::stagger_mutants::{name}<{first}>{{}} {token.text}")
        for number, other in enumerate(others, first):
            self.note(number, token, f"{token.text} is {other}", token.begin, token.end, other)

    def arithmetic(self, index, token):
        if any(self.tokens[near].kind == "string" for near in (index - 1, index + 1)):
            return
        name, other = ARITHMETIC[token.text]
        first = self.take(token, 2)
        if first is None:
            return
        self.instead(token, f"{token.text} ::stagger_mutants::{name}<{first}>{{}} {token.text}")
        self.note(first, token, f"{token.text} is {other}", token.begin, token.end, other)
        end = self.operand_after(index, tight=True)
        self.note(first + 1, token, "right operand dropped", token.begin - 1, end, "")

    def operand_after(self, index, tight=False):
        """Where the right operand of a logical (tight: any binary) operator ends."""
        stops = {",", ";", "?", ":", ")", "]", "}", "||"} | ASSIGNMENTS
        if self.tokens[index].text == "&&" or tight:
            stops.add("&&")
        at = index + 1
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.text in PAIRS and token.mate:
                at = token.mate + 1
                continue
            if token.text in stops:
                break
            if tight and at > index + 1 and token.spaced and token.kind == "sign":
                break
            at += 1
        return self.tokens[at - 1].end

    def operand_before(self, index):
        stops = {"(", "[", "{", ",", ";", "?", ":", "return", "else"} | ASSIGNMENTS
        if self.tokens[index].text == "&&":
            stops.add("||")
        at = index - 1
        while at >= 0:
            token = self.tokens[at]
            if token.text in PAIRS.values() and token.mate is not None:
                at = token.mate - 1
                continue
            if token.text in stops:
                break
            at -= 1
        return self.tokens[at + 1].begin

    def terms(self, index, token):
        first = self.take(token, 2)
        if first is None:
            return
        sign = "||" if token.text == "&&" else "&&"
        no = "" if token.text == "&&" else "!"
        right = (self.tokens[index + 1].begin, self.operand_after(index))
        left = (self.operand_before(index), self.tokens[index - 1].end)
        for number, (begin, end), side in ((first, right, "right"), (first + 1, left, "left")):
            self.around(begin, end, f"({no}::stagger_mutants::mutant<{number}>() {sign} (", "))")
            kept = self.text[left[0]:left[1]] if side == "right" else self.text[right[0]:right[1]]
            self.note(number, token, f"{side} term of {token.text} dropped", left[0], right[1], kept)

    def negation(self, token):
        first = self.take(token, 1)
        if first is None:
            return
        self.instead(token, f"::stagger_mutants::mutant<{first}>() != !")
        self.note(first, token, "! dropped", token.begin, token.end, "")

    def choice(self, index, token):
        first = self.take(token, 1)
        if first is None:
            return
        begin, end = self.operand_before(index), self.tokens[index - 1].end
        self.around(begin, end, f"(::stagger_mutants::mutant<{first}>() != static_cast<bool>(", "))")
        self.note(first, token, "choice turned", token.begin, token.end, "? not:")

    def number(self, token):
        if not re.fullmatch(r"\d[\d']*", token.text):
            return
        value = int(token.text.replace("'", ""))
        others = [value + 1] + ([value - 1] if value > 0 else [])
        first = self.take(token, len(others))
        if first is None:
            return
        text = token.text
        for offset, other in enumerate(others):
            text = f"(::stagger_mutants::mutant<{first + offset}>() ? {other} : {text})"
            self.note(first + offset, token, f"{token.text} is {other}", token.begin, token.end,
                      str(other))
        self.instead(token, text)

    def word(self, index, token):
        after = self.tokens[index + 1]
        if token.text in ("true", "false") and after.text not in ("_type",):
            other = "false" if token.text == "true" else "true"
            first = self.take(token, 1)
            if first is not None:
                self.instead(token, f"(::stagger_mutants::mutant<{first}>() ? {other} : {token.text})")
                self.note(first, token, f"{token.text} is {other}", token.begin, token.end, other)
        elif token.text in ("min", "max") and self.tokens[index - 1].text == "::":
            self.extreme(index, token)
        elif token.text in ("if", "while") and after.text == "(" and after.mate:
            self.condition(index, token)
        elif token.text == "return":
            self.returned(index, token)
        elif token.text in ("break", "continue") and self.tokens[index + 2].text != "else":
            self.jump(token)
        if self.begins_statement(index):
            self.statement(index, token)

    def extreme(self, index, token):
        std = self.tokens[index - 2]
        if std.text != "std" or self.tokens[index + 1].text not in ("(", "<"):
            return
        first = self.take(token, 2)
        if first is None:
            return
        other = "max" if token.text == "min" else "min"
        self.edits.append((std.begin, std.end, None, "::stagger_mutants"))
        typed = self.tokens[index + 1]
        if typed.text == "<":
            self.edits.append((token.begin, typed.end, None, f"{token.text}<{first}, "))
        else:
            self.instead(token, f"{token.text}<{first}>")
        self.note(first, token, f"{token.text} is {other}", token.begin, token.end, other)
        self.note(first + 1, token, f"{token.text} is its first argument", token.begin, token.end,
                  "first_of")

    def condition(self, index, token):
        opening = index + 1
        closing = self.tokens[opening].mate
        begin = opening + 1
        for at in range(opening + 1, closing):
            if self.tokens[at].text == ";":
                begin = at + 1
        inner = self.tokens[begin:closing]
        if not inner or any(part.text == "=" for part in inner) or inner[0].text == "const":
            return
        first = self.take(token, 2)
        if first is None:
            return
        start, end = inner[0].begin, inner[-1].end
        always = token.text == "if"
        before = f"!::stagger_mutants::mutant<{first}>() && ("
        if always:
            before += f"::stagger_mutants::mutant<{first + 1}>() || "
        self.around(start, end, before + "(", "))")
        self.note(first, token, f"{token.text} never", start, end, "false")
        if always:
            self.note(first + 1, token, "if always", start, end, "true")

    def returned(self, index, token):
        end = self.statement_end(index)
        inner = self.tokens[index + 1:end]
        if not inner or inner[0].text in ("{", "std", "[") or len(inner) == 1 or \
                any(part.text in ("move", "forward", "{") for part in inner):
            return
        first = self.take(token, 1)
        if first is None:
            return
        self.around(inner[0].begin, inner[-1].end, f"::stagger_mutants::result<{first}>(", ")")
        text = self.text[inner[0].begin:inner[-1].end]
        self.note(first, token, "another result", inner[0].begin, inner[-1].end,
                  f"another({text})")

    def jump(self, token):
        first = self.take(token, 1)
        if first is None:
            return
        self.around(token.begin, token.end, f"if (!::stagger_mutants::mutant<{first}>()) ", "")
        self.note(first, token, f"{token.text} dropped", token.begin, token.end, "")

    def statement_end(self, index):
        at = index
        while at < len(self.tokens) and self.tokens[at].text != ";":
            token = self.tokens[at]
            if token.text == "}" and token.mate is not None and token.mate < index:
                break
            at = (token.mate if token.text in PAIRS and token.mate else at) + 1
        return at

    def begins_statement(self, index):
        before = self.tokens[index - 1]
        if self.text[:self.tokens[index].begin].rsplit("\n", 1)[-1].strip():
            return before.text == ")" and before.mate and self.tokens[before.mate - 1].text == "if"
        if before.text in (";", "{", "}"):
            return True
        return before.text == ")" and before.mate is not None and \
            self.tokens[before.mate - 1].text in ("if", "for", "while") or before.text == "else"

    def statement(self, index, token):
        """An expression statement, by a glance at how it begins, is left out."""
        if token.text in KEYWORDS:
            return
        end = self.statement_end(index)
        if end >= len(self.tokens) or self.tokens[end].text != ";":
            return
        at = index + 1
        while at < end and self.tokens[at].text in ("::", ".", "->", "(", "["):
            at = (self.tokens[at].mate + 1) if self.tokens[at].text in "([" else at + 2
        if at < end and not (self.tokens[at].text in ASSIGNMENTS or self.tokens[at].text == "<<"):
            return  # a declaration: another word, or a type's brackets
        if at + 1 < end + 1 and self.tokens[at + 1].text in ("default", "delete"):
            return
        first = self.take(token, 1)
        if first is None:
            return
        self.around(token.begin, self.tokens[end - 1].end,
                    f"::stagger_mutants::mutant<{first}>() ? void() : void(", ")")
        self.note(first, token, "statement dropped", token.begin, self.tokens[end].end, ";")

    def call(self, index):
        """The first two arguments exchanged, where they are names."""
        closing = self.tokens[index].mate
        if not closing or self.tokens[index - 1].kind != "word" or self.tokens[index - 1].text in KEYWORDS:
            return
        arguments, begin, at = [], index + 1, index + 1
        while at <= closing:
            token = self.tokens[at]
            if token.text == "," or at == closing:
                arguments.append(self.tokens[begin:at])
                begin = at + 1
            elif token.text in PAIRS:
                return
            at += 1
        def plain(words):
            return words and all(word.kind in ("word", "number") or word.text in (".", "->", "::")
                                 for word in words) and words[0].text not in KEYWORDS and \
                all(left.kind != "word" or right.kind != "word"
                    for left, right in zip(words, words[1:]))
        name = self.tokens[index - 1].text
        if "emplace" in name or name in ("min", "max"):  # no matter which is which
            return
        if len(arguments) < 2 or not plain(arguments[0]) or not plain(arguments[1]):
            return
        left = self.text[arguments[0][0].begin:arguments[0][-1].end]
        right = self.text[arguments[1][0].begin:arguments[1][-1].end]
        start = index - 1
        while self.tokens[start - 1].text in ("::", ".", "->") and not self.tokens[start].spaced:
            start -= 2
            if self.tokens[start].text in (")", "]"):
                return
        if left == right or self.tokens[start - 1].kind == "word" and \
                self.tokens[start - 1].text != "return" or self.tokens[start - 1].text in (">", "~", "*", "&", ":"):
            return
        first = self.take(self.tokens[index], 1)
        if first is None:
            return
        callee = self.text[self.tokens[start].begin:self.tokens[index].end]
        rest = self.text[arguments[1][-1].end:self.tokens[closing].end].replace("\n", " ")
        named = f"{callee}mutant_left, mutant_right{rest}"
        self.around(self.tokens[start].begin, self.tokens[closing].end,
                    f"::stagger_mutants::exchanged<{first}>([&](auto&& mutant_left, auto&& mutant_right)"
                    f" -> decltype({named}) {{ return {named}; }}, {left}, {right}, "
                    "[&]() -> decltype(auto) { return ", "; })")
        self.note(first, self.tokens[index], "arguments exchanged", self.tokens[start].begin,
                  self.tokens[closing].end, f"{callee}{right}, {left}{rest}")

    # The text with all of them.

    def result(self):
        places = []
        for order, (begin, end, before, after) in enumerate(self.edits):
            if before is None:
                places.append((begin, 1, 0, order, after, end))
            else:
                places.append((begin, 1, -end, order, before, begin))  # the widest opens first
                places.append((end, 0, -begin, -order, after, end))    # the narrowest closes first
        places.sort(key=lambda place: place[:4])
        pieces, at = [], 0
        for place, _, _, _, text, resume in places:
            pieces.append(self.text[at:place])
            pieces.append(text)
            at = max(resume, place)
        pieces.append(self.text[at:])
        return "".join(pieces)
