"""YAML as people who write specs expect it, and what is wrong with a text that is not."""

import re
from collections.abc import Hashable
from typing import Any

import yaml


class _SpecLoader(yaml.SafeLoader):
    """YAML as people expect it: only `true` and `false` are booleans, `1e-5` is a number, `007` is text, no dates,
    keys once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: list[Any] = []
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if key is None and _is_question_mark(key_node.start_mark):
                raise yaml.YAMLError(f"line {line}: `?` must be put in quotes")
            if isinstance(key, int | float) and node.flow_style and value_node.value == "":
                raise yaml.YAMLError(f"line {line}: several values need brackets, such as [0, 100]")
            if not isinstance(key, str):
                raise yaml.YAMLError(f"line {line}: a key must be text; put it in quotes")
            if key in keys:
                raise yaml.YAMLError(f"line {line}: key `{key}` stands twice; remove or rename one of them")
            keys.append(key)
        return super().construct_mapping(node, deep)


_OTHERWISE = {"bool", "int", "float", "timestamp", "value"}
_SpecLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in _OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SpecLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False|TRUE|FALSE)$"), list("tTfF")
)
_SpecLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9]\d*)$"), list("-+0123456789"))
_SpecLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:\.\d+|\d+\.\d*)(?:[eE][-+]?\d+)?$|^[-+]?\d+[eE][-+]?\d+$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def read_yaml(text: str) -> Any:
    """What YAML text holds, read as a spec is.

    Raises
    ------
    yaml.YAMLError, RecursionError, ValueError
        The text is not YAML, or has keys that stand twice or are not text.
    """
    return yaml.load(text, Loader=_SpecLoader)


def _is_question_mark(mark: yaml.Mark) -> bool:
    before = (mark.buffer or "")[: mark.pointer + 1].rstrip(",]}\n\0 ")
    return before.endswith("?")


def yaml_fault(error: Exception, text: str) -> str:
    """What is wrong with a text that is not YAML, with its line."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error) or type(error).__name__
    problem, context, mark = error.problem or "", error.context or "", error.problem_mark
    begun = error.context_mark.line if error.context_mark is not None else mark.line
    lines = [*text.splitlines(), "", ""]
    sign = text[mark.index : mark.index + 1]
    quote = f"text that begins with {'a backtick' if sign == '`' else f'`{sign}`'} must be put in quotes"
    line, hint = mark.line, ""
    if sign == "\t" and "cannot start any token" in problem:
        problem, hint = "a tab", "indent with spaces"
    elif "cannot start any token" in problem or "undefined alias" in problem or "constructor for the tag" in problem:
        hint = quote
    elif "block scalar" in context:
        line, hint = begun, "text that begins with `>` or `|` must be put in quotes"
    elif "while scanning a" in context and ("anchor" in context or "alias" in context or "tag" in context):
        line, hint = begun, "text that begins with `&`, `*` or `!` must be put in quotes"
    elif "while scanning a directive" in context:
        line, hint = begun, "text that begins with `%` must be put in quotes"
    elif "quoted scalar" in context and "escape" in problem:
        hint = "in double quotes a backslash is special; use single quotes"
    elif "quoted scalar" in context:
        line, problem, hint = begun, "a quote is not closed", "text that holds a quote must be put in other quotes"
    elif "parsing a flow" in context:
        commented = next((n for n in range(mark.line, begun - 1, -1) if re.search(r"[\[{,].*\s#", lines[n])), None)
        if commented is not None and "expected ','" in problem:
            line, hint = commented, "` #` begins a comment; text that holds it must be put in quotes"
        elif "expected the node content" in problem:
            hint = quote
        else:
            hint = (
                f"the bracket in line {begun + 1} is not closed, a comma is missing, or text that holds `: ` or quotes "
                "must be put in quotes"
            )
    elif "mapping values are not allowed" in problem:
        hint = "text that holds `: ` must be put in quotes; or a space after a colon, or the indentation, is missing"
    elif "not allowed here" in problem:
        hint = quote
    elif "expected <block end>" in problem:
        hint = "indent the line as the lines above; or put text that holds quotes, brackets or commas in quotes"
    elif "could not find expected ':'" in problem:
        line, hint = begun, "write `key: value`, with a space after the colon; or put the text in quotes"
    elif "found another document" in problem:
        hint = "a spec is one document; remove the line `---`"
    return f"line {line + 1}: {problem}{f'; {hint}' if hint else ''}"
