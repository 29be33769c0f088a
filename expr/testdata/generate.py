#!/usr/bin/env python3
"""Writes jinja2.json: what the real Jinja2 (3.x) makes of every case below.

Expressions go through compile_expression, texts through from_string().render(), both with
ChainableUndefined. Filters and tests that only Stepwell has are stood in for by Python's own
functions. A case whose third element is a difference states what Stepwell yields instead,
and why; everything else must be equal, types included (1 is not 1.0, "1" is not 1).

Usage: python3 generate.py > jinja2.json
"""
import base64
import json
import os.path
import re
import sys
import types

import jinja2

CONTEXT = {
    "params": {
        "name": "demo", "id": "007", "exp": "1e5", "n": 5, "neg": -7, "f": 2.5, "whole": 3.0, "yes": True, "no": False,
        "nothing": None, "empty": "", "text": "the quick brown fox", "uni": "äöü ß €", "lines": "one\ntwo\n\nthree",
        "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4]]], "none_list": [], "map": {"b": 1, "a": 2},
        "items": [{"name": "x", "size": 2, "tag": {"k": "t1"}}, {"name": "y", "size": 1, "tag": {"k": "t2"}},
                  {"name": "z", "size": 2, "tag": {"k": "t1"}}],
        "path": "/media/day 1/GX010042.MP4", "dotted-key": 9, "big": 9007199254740993, "json": "{\"a\": [1, 2.0, null]}",
    },
    "steps": {
        "check": {"status": "completed", "outputs": {"healthy": True, "count": 3, "ratio": 0.5, "branch": "left", "ids": ["i0", "i1"]}},
        "deploy": {"status": "failed", "outputs": {}},
    },
    "item": "current",
    "index": 4,
}


class Differs:
    """What Stepwell yields where it does not follow Jinja2. was: what revision 1 of its rules yields, for differences
    that came with revision 2."""

    def __init__(self, reason, value=None, error=None, undefined=False, was=None):
        self.reason, self.out, self.was = reason, {"value": value}, was
        if error:
            self.out = {"error": error}
        if undefined:
            self.out = {"undefined": True}


STRICT = "undefined is strict where a value is needed"
JSONTEXT = "lists and mappings inside text are JSON"
ASKED = "an undefined name or member is an error where a condition is asked for, too"
LOWER = "true, false and none are lower case inside text"
SORTED = "mappings iterate in sorted key order"
KEYS = "a key hides the method of that name"
BOUND = "64-bit integers and bounded results"
NUMBER = "int and float give their default for what is no number only if it is written"
HTML = "tojson is compact and escapes no HTML"

REGEX = "regular expressions are RE2, whose empty matches do not follow a match"
RANGE = "range gives a list"

EXPRESSIONS = [
    # literals
    "1", "-1", "+1", "1_000", "0x1F", "0b101", "0o17", "1.5", "1e3", "1.5e-3", "2E2", "'a'", '"a"', "'it\\'s'", '"tab\\tnew\\nline"',
    "'\\u00e4\\x41\\101'", "'\\d+'", "'a' 'b'", "'\\\\'", "true", "True", "false", "False", "none", "None", "[]", "[1, 'a', 2.0]", "[1, 2,]",
    "{}", "{'a': 1, 'b': [2]}", "{'a': {'b': {'c': 1}}}", "()", "(1,)", "(1, 2)", "(1)",
    ("{1: 'a', true: 'b'}", Differs("mapping keys are strings", {"1": "a", "true": "b"})),
    # names, attributes, subscripts
    "params.name", "params['name']", 'params["name"]', "params.list[0]", "params.list.0", "params.list[-1]", "params.nested[1][1][0]",
    "params.nested.1.1.0", "params['dotted-key']", "params.missing", "params.missing.deeper.still", "missing", "missing.x['y'][0]",
    "params.list[10]", "params.list[-10]", "params.name[0]", "params.name[-1]", "params.name[9]", "params.nothing.x", "params.n.x",
    "params[item]", "params['na' ~ 'me']", "params.list[index - 2]", "params.list[params.n]", "{'a': 1}.a", "{'a': 1}['a']", "[10, 20][1]", "'abc'[1]",
    "(params.list)[1]", "params.map['a']", "params.map.get('a')", "params.map.get('zz')", "params.map.get('zz', 5)", "steps.check.outputs.ids[1]",
    ("params.items", Differs(KEYS, CONTEXT["params"]["items"])),
    ("params.items[0].name", Differs(KEYS, "x")),
    ("params.map.keys", Differs("a method is no value", undefined=True)),
    ("params.name.upper", Differs("a method is no value", undefined=True)),
    "params['items'][1].tag.k",
    # slices
    "params.list[1:]", "params.list[:1]", "params.list[:-1]", "params.list[::2]", "params.list[::-1]", "params.list[5:]", "params.list[-2:]",
    "params.list[2:0:-1]", "params.name[1:3]", "params.name[::-1]", "params.uni[:3]", "params.list[:]", "params.list[-100:100]", "params.list[none:2]",
    "params.list[::0]", "params.n[1:]", "params.list['a':]",
    # arithmetic
    "1 + 2", "1 + 2.0", "5 - 7", "3 * 4", "7 / 2", "6 / 2", "7 // 2", "-7 // 2", "7 // -2", "-7 // -2", "7 % 3", "-7 % 3", "7 % -3", "7.5 // 2", "-7.5 // 2",
    "7.5 % 2", "-7.5 % 2", "-4.0 % 2 ~ ''", "4.0 % -2 ~ ''", "0.0 // -1 ~ ''", "-1.0 // 5 ~ ''", "-0.0 // 1 ~ ''", "7.5 % -2", "2 ** 10", "2 ** -1", "2 ** 0", "0 ** 0", "2.0 ** 3", "2 ** 0.5", "2 ** 3 ** 2", "-2 ** 2", "2 * 3 ** 2", "1 + 2 * 3", "(1 + 2) * 3",
    "10 - 2 - 3", "100 / 10 / 2", "- - 3", "-params.n", "params.n + params.neg", "true + 1", "1 / 0", "1 // 0", "1 % 0", "1.0 / 0", "0 ** -1", "'a' + 'b'", "'ab' * 3", "3 * 'ab'", "'ab' * 0",
    "'ab' * -1", "[1] + [2]", "[1, 2] * 2", "'a' + 1", "1 + 'a'", "none + 1", "[1] + 1", "-'a'", "+'a'", "{} + {}", "'a' - 'b'", "0.1 + 0.2", "1e308 * 10 > 1e308", "3.0 * 2", "1 - 1.0",
    "9007199254740993 + 0", "params.big",
    ("9223372036854775807 + 1", Differs(BOUND, error="budget")),
    ("-9223372036854775807 - 2", Differs(BOUND, error="budget")),
    ("4611686018427387904 * 2", Differs(BOUND, error="budget")),
    ("10 ** 30", Differs(BOUND, error="budget")),
    ("99999999999999999999", Differs(BOUND, error="syntax")),
    "9223372036854775807", "(-3) ** 3", "2 ** 62", "(-2) ** 63 == -9223372036854775807 - 1", "2.5 * 2", "-0.0", "1e16", "1e15", "0.0001", "0.00001",
    # formatting with %
    "'%s' % 'x'", "'%d items' % 3", "'%05d' % 42", "'%.2f' % 3.14159", "'%5.1f|' % 2.25", "'%x' % 255", "'%-5s|' % 'ab'", "'%s-%s' % (1, 'b')", "'%(a)s' % {'a': 1}", "'%d%%' % 50",
    "'%+d' % 5", "'%e' % 12345.678", "'%g' % 0.5", "'%s' % (1, 2)", "'%s %s' % 1", "'%d' % 'x'", "'%5s' % 'ä'", "'%03d' % 7", "'%c' % 'x' == 'x' or true", "'%o' % 8", "'%X' % 255", "'%#x' % 255",
    # concatenation
    "'a' ~ 'b'", "'a' ~ 1", "1 ~ 2", "params.name ~ '-' ~ params.n", "'v' ~ 1.0", "1 ~ 2 + 3", "'a' ~ 2 * 3",
    ("'a' ~ true", Differs(LOWER, "atrue")),
    ("'a' ~ none", Differs(LOWER, "anone")),
    ("'a' ~ [1, 'b']", Differs(JSONTEXT, 'a[1,"b"]')),
    ("'a' ~ missing", Differs(STRICT, error="undefined")),
    # comparison
    "1 == 1", "1 == 1.0", "true == 1", "1 == '1'", "1 != 2", "'a' < 'b'", "'a' < 'B'", "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2", "1 < 2 == 2", "1 == 1 != 2", "[1, 2] == [1, 2]", "[1, 2] < [1, 3]", "[1] < [1, 0]",
    "{'a': 1} == {'a': 1.0}", "{'a': 1} == {'b': 1}", "none == none", "none == false", "'' == none", "1 < 'a'", "none < 1", "[1] < 1", "{} < {}",
    "missing < 1", "1 >= missing",
    "params.n > 3", "params.n >= 5", "params.f <= 2.5", "9007199254740993 == 9007199254740992.0", "9007199254740993 > 9007199254740992.0", "true > false", "true and 1 < 2",
    # membership
    "1 in [1, 2]", "3 in [1, 2]", "3 not in [1, 2]", "not 3 in [1, 2]", "'ell' in 'hello'", "'x' in 'hello'", "'a' in params.map", "'zz' not in params.map", "1 in 'a'", "1 in 5", "1.0 in [1]", "'' in ''", "'A' in params.words", "'1' in {'1': 2}",
    ("1 in missing", Differs(STRICT, error="undefined")),
    # logic
    "true and false", "true or false", "not true", "not not 1", "1 and 2", "0 or 'x'", "'' or none", "none and 1", "not ''", "not []", "not {}", "not 0.0", "true or 1 / 0", "false and 1 / 0", "not true or true", "true or true and false",
    "missing and 1", "params.none_list or 'empty'", "1 or 2 and 3", "not 1 == 2",
    # inline if
    "'a' if true else 'b'", "'a' if false else 'b'", "1 if params.yes else 2", "'a' if false", "'a' if 0 else 'b' if 0 else 'c'", "('a' if true else 'b') ~ 'c'", "params.n if params.n is defined else 0",
    "steps.none.outputs.x if steps.none.outputs.x is defined else 'fallback'", "'large' if params.n > 3 else 'small'", "1 if true else 2 / 0",
    # tests
    "params.n is defined", "params.missing is defined", "params.missing is not defined", "missing.x.y is undefined", "none is none", "params.nothing is none", "1 is number", "1.0 is number", "'1' is number", "true is number", "1 is integer", "true is integer",
    "1.0 is integer", "1.0 is float", "1 is float", "'a' is string", "1 is string", "{} is mapping", "[] is mapping", "[] is sequence", "'a' is sequence", "{} is sequence", "1 is sequence", "[] is iterable", "1 is iterable", "'a' is iterable", "true is boolean", "1 is boolean", "true is true",
    "1 is true", "false is false", "0 is false", "3 is odd", "4 is even", "3 is even", "-3 is odd", "9 is divisibleby 3", "9 is divisibleby(4)", "9 is not divisibleby 4", "1 is eq 1", "1 is eq(2)", "1 is equalto 1", "1 is ne 2", "1 is lt 2", "1 is le 1", "1 is gt 2", "1 is ge 1", "1 is lessthan 2", "1 is greaterthan 2",
    "1 is in [1, 2]", "'a' is in 'abc'", "3 is not in [1]", "'abc' is lower", "'ABC' is upper", "'aBc' is lower", "'123' is upper", "none is sameas none", "true is sameas true", "'a' is callable", "params.n is defined and params.n > 3", "params.missing is defined and params.missing > 3",
    "not params.missing is defined", "params.n is number and params.name is string", "1 is 2", "1 is nosuchtest", "'a.b' is startswith 'a'", "'a.b' is endswith '.b'", "'abc123' is match '[a-c]+'", "'xabc' is match 'abc'", "'xabc' is search 'abc'", "'a' is startswith('b')",
    ("3 is odd if true else 1", Differs("a word that begins an operator is never a test's argument", True)),
    "false is integer", "1 is sameas 1.0",
    ("missing is iterable", Differs(ASKED, error="undefined", was=False)),
    ("missing is sequence", Differs(ASKED, error="undefined", was=False)),
    # undefined where a condition is asked for
    ("missing == none", Differs(ASKED, error="undefined")),
    ("missing == missing", Differs(ASKED, error="undefined")),
    ("missing == ''", Differs(ASKED, error="undefined")),
    ("missing != 'x'", Differs(ASKED, error="undefined")),
    ("missing in [1]", Differs(ASKED, error="undefined")),
    ("missing or 'x'", Differs(ASKED, error="undefined")),
    ("not missing", Differs(ASKED, error="undefined")),
    ("'x' if missing else 'y'", Differs(ASKED, error="undefined")),
    ("missing is none", Differs(ASKED, error="undefined")),
    ("missing is string", Differs(ASKED, error="undefined")),
    ("missing is number", Differs(ASKED, error="undefined")),
    ("missing is mapping", Differs(ASKED, error="undefined")),
    ("missing is eq 1", Differs(ASKED, error="undefined")),
    ("params['items'] | selectattr('zz') | list", Differs(ASKED, error="undefined")),
    # default
    "missing | default('x')", "missing | d('x')", "missing | default", "params.missing | default(5)", "missing.a.b | default({})", "steps.simulate.outputs.recommended_config | default({})", "none | default('x')", "none | default('x', true)", "'' | default('x', true)", "'' | default('x', boolean=true)", "0 | default(1, true)",
    "params.n | default(1)", "missing | default(default_value=3)", "missing | default(missing2) | default('y')", "(missing | default('a')) ~ 'b'", "missing | default([]) | length", "(params.list | default([])) | length",
    # text filters
    "'aBc' | upper", "'aBc' | lower", "'hello wORLD' | capitalize", "'hello big-wORLD (now)' | title", "'  x ' | trim", "'xxaxx' | trim('x')", "params.id | upper", "params.exp | upper", "5 | upper", "'a-b' | replace('-', '+')", "'aaa' | replace('a', 'b', 2)", "'aaa' | replace('', '-')",
    "12 | replace('1', 'x')", "params.text | wordcount", "'a b  c_d' | wordcount", "params.text | truncate(10)", "params.text | truncate(10, true)", "params.text | truncate(10, true, '~')", "params.text | truncate(17)", "params.text | truncate(length=9, killwords=true, end='', leeway=0)", "'abc' | truncate(2)", "params.lines | indent", "params.lines | indent(2, true)",
    "params.lines | indent(2, blank=true)", "params.lines | indent('> ')", "'a' | center(5)", "'ab' | center(5)", "'ab' | center(7)", "'abc' | center(6)", "'abc' | center(2)", "'%s is %d' | format('x', 3)", "'%(a)s' | format(a=1)", "'%s' | format", "'a b/c?d=ä' | urlencode", "{'a': 1, 'b c': 'd&e/'} | urlencode", "[['a', 1], ['b', 2]] | urlencode", "1 | string", "1.5 | string", "'a' | string",
    "'abc' | length", "params.uni | length", "'abc' | reverse", "'abc' | list", "'abc' | first", "'abc' | last", "'a,b,c' | split(',')", "' a  b ' | split", "params.path | basename", "params.path | dirname", "'/x' | dirname", "'x' | dirname", "params.path | splitext", "'a.tar.gz' | splitext", "'.bashrc' | splitext", "'hello' | b64encode",
    "'aGVsbG8=' | b64decode", "params.uni | b64encode | b64decode", "'a1b22' | regex_replace('[0-9]+', '#')", "'john smith' | regex_replace('(\\w+) (\\w+)', '\\2 \\1')", "'a$b' | regex_replace('b', '$1')", "'GX010042.MP4' | regex_search('[0-9]+')", "'abc' | regex_search('[0-9]+')",
    ("params.uni | upper", Differs("upper maps one character to one", "ÄÖÜ ß €")),
    ("true | string", Differs(LOWER, "true")),
    "none | upper",
    ("[1, 'a'] | string", Differs(JSONTEXT, '[1,"a"]')),
    ("missing | upper", Differs(STRICT, error="undefined")),
    ("missing | length", Differs(STRICT, error="undefined")),
    # number filters
    "-3 | abs", "-3.5 | abs", "'-3' | abs", "'42' | int", "'4.7' | int", "4.7 | int", "-4.7 | int", "'x' | int(7)", "'ff' | int(base=16)", "'0xff' | int(0, 16)", "'101' | int(base=2)", "' 12 ' | int", "'1_000' | int", "true | int", "[] | int(3)", "'1e3' | int", "'3.5' | float", "'x' | float(1.5)", "3 | float", "'1e3' | float",
    ("'x' | int", Differs(NUMBER, error="value")),
    ("none | int", Differs(NUMBER, error="value")),
    ("'x' | float", Differs(NUMBER, error="value")),
    ("none | float", Differs(NUMBER, error="value")),
    "2.5 | round", "3.5 | round", "2.675 | round(2)", "42.55 | round(1)", "42.55 | round(1, 'floor')", "42.41 | round(1, 'ceil')", "5 | round", "1234 | round(-2)", "1250 | round(-2)", "1350 | round(-2)", "-1250 | round(-2)", "1234.5 | round(-2)", "2.1 | round | int", "-2.5 | round", "2.5 | round(method='ceil')", "5 | round(method='floor')", "'x' | round",
    # list filters
    "params.list | length", "params.map | length", "params.map | count", "params.list | first", "params.list | last", "[] | first", "[] | last", "params.list | join", "params.list | join('-')", "params.list | join(d='+')", "params['items'] | join(',', attribute='name')", "[1, 'a', 2.5] | join(',')", "params.list | sort", "params.list | sort(reverse=true)", "params.words | sort",
    "params.words | sort(case_sensitive=true)", "params['items'] | sort(attribute='size')", "params['items'] | sort(attribute='size,name', reverse=true)", "params['items'] | sort(attribute='tag.k') | map(attribute='name') | list", "[1, 'a'] | sort", "params.list | reverse | list", "params.list | min", "params.list | max", "params.words | min", "params.words | max", "params.words | max(case_sensitive=true)", "params['items'] | max(attribute='size')", "params['items'] | min(attribute='size')",
    "[] | min", "[] | max", "params.list | sum", "params['items'] | sum(attribute='size')", "params.list | sum(start=10)", "[0.5, 1] | sum", "[] | sum", "['a'] | sum", "[1, 2, 1, 3] | unique | list", "['a', 'A', 'b'] | unique | list", "['a', 'A'] | unique(case_sensitive=true) | list", "params['items'] | unique(attribute='size') | map(attribute='name') | list", "[1, 1.0, true, '1'] | unique | list", "[1, 2, 3, 4, 5] | batch(2) | list",
    "[1, 2, 3] | batch(2, 0) | list", "[1, 2, 3, 4, 5] | slice(2) | list", "[1, 2, 3, 4, 5] | slice(3, 0) | list", "[1, 2] | slice(3) | list", "params.nested | flatten", "params.nested | flatten(1)", "params.list | list", "params.none_list | join(',')", "params['items'] | groupby('size') | map('list') | list", "params['items'] | groupby('tag.k') | map('first') | list",
    "params['items'] | groupby('zz', default='none') | length", "params.words | groupby(0) | map('first') | list", "'b' in params.words | sort", "params.list | sort | first", "1 | length", "1 | first", "1 | join", "none | list",
    ("params.map | list", Differs(SORTED, ["a", "b"])),
    ("params.map | first", Differs(SORTED, "a")),
    ("params.map.keys() | list", Differs(SORTED, ["a", "b"])),
    ("params.map.values() | list", Differs(SORTED, [2, 1])),
    ("params.map.items() | list", Differs(SORTED, [["a", 2], ["b", 1]])),
    ("params.map | items | list", Differs(SORTED, [["a", 2], ["b", 1]])),
    "params.map | dictsort", "params.map | dictsort(by='value')", "params.map | dictsort(reverse=true)", "{'B': 1, 'a': 2} | dictsort", "{'B': 1, 'a': 2} | dictsort(true)", "params.map | sort", "params.map | keys | sort", "params.map | values | sort", "params.map | dictsort(by='x')",
    # map, select, reject
    "params.words | map('upper') | list", "params['items'] | map(attribute='name') | list", "params['items'] | map(attribute='tag.k') | list", "params['items'] | map(attribute='zz', default=0) | list", "params.list | map('string') | list", "params.words | map('replace', 'a', 'x') | list", "params.list | select('gt', 1) | list", "params.list | select('odd') | list", "params.list | reject('odd') | list", "[0, 1, '', 'a', none] | select | list",
    "[0, 1, '', 'a', none] | reject | list", "params['items'] | selectattr('size', 'eq', 2) | map(attribute='name') | list", "params['items'] | rejectattr('size', 'equalto', 2) | map(attribute='name') | list", "params['items'] | selectattr('name', 'in', ['x', 'y']) | list | length", "params['items'] | selectattr('zz', 'defined') | list", "params['items'] | rejectattr('zz', 'defined') | list | length", "params['items'] | selectattr('tag.k', 'eq', 't1') | list | length",
    "params.words | map('nosuchfilter') | list", "params.list | select('nosuchtest') | list", "params['items'] | map(attribute='zz') | select('defined') | list", "params.nested | map('first') | list", "params.nested | map('length') | sum", "params.list | map('int') | sum", "['1', '2'] | map('int') | list", "params.words | map('lower') | unique | sort | join",
    # json and others
    ("{'a': [1, 2.0, none], 'b': '<&>'} | tojson", Differs(HTML, '{"a":[1,2.0,null],"b":"<&>"}')),
    ("'ä' | tojson", Differs("tojson keeps characters beyond ASCII", '"ä"')),
    "'a\"b' | tojson", "1 | tojson", "none | tojson", "true | tojson", "[1] | tojson", "{'b': 1, 'a': {'c': []}} | tojson(indent=2)", "params.json | fromjson", "(params.json | fromjson).a[1]", "'{' | fromjson", "1 + 1 | int", "1 | nosuchfilter", "'a' | upper('b')", "'a' | replace('b')", "'a' | default(nosuch=1)",
    ("params.map | attr('b')", Differs("attr reads mapping keys too", 1)),
    # methods
    "'aBc'.upper()", "'aBc'.lower()", "' a '.strip()", "' a '.lstrip()", "' a '.rstrip()", "'xax'.strip('x')", "'a,b,c'.split(',')", "'a,b,c'.split(',', 1)", "'a,b,c'.rsplit(',', 1)", "' a  b c '.split()", "' a  b c '.split(none, 1)", "' a  b c '.rsplit(none, 1)", "'a\\nb\\r\\nc'.splitlines()", "'a\\nb\\n'.splitlines(true)", "'abc'.replace('b', 'x')", "'aaa'.replace('a', 'b', 1)", "'abc'.startswith('ab')", "'abc'.startswith(('x', 'a'))", "'abc'.endswith('bc')",
    "'-'.join(['a', 'b'])", "'abc'.find('c')", "'äbc'.find('c')", "'abc'.find('z')", "'banana'.count('an')", "'hello world'.title()", "\"they're bill's\".title()", "'hELLO'.capitalize()", "'12'.isdigit()", "'1a'.isdigit()", "''.isdigit()", "'7'.zfill(3)", "'-7'.zfill(4)", "'abcd'.zfill(2)", "[1, 2, 1].index(2)", "[1, 2, 1].count(1)", "[1].index(5)", "'abc'.nosuch()", "params.name.upper().lower()", "params.name.split('m')[0]", "'abc'.split('')",
    "'abc'.removeprefix('a')", "'abc'.removesuffix('c')", "(5).upper()", "params.list.count(3)", "missing.upper()", "'a'.upper(1)",
    # functions
    "range(3) | list", "range(1, 4) | list", "range(0, 10, 3) | list", "range(5, 0, -2) | list", "range(0) | list", "range(3, 1) | list", "range(1, 2, 0)", "range('a')", "range(3) | sum", "2 in range(3)", "dict(a=1, b='x')", "dict()", "dict({'a': 1}, b=2)", "dict([['a', 1]])", "nosuchfunction(1)", "range(3)[1]", "range(1, 3) | map('string') | join(',')",
    ("[1] < range(3)", Differs(RANGE, False)),
    ("range(3) == [0, 1, 2]", Differs(RANGE, True)),
    # regular expressions
    ("'abxd' | regex_replace('x*', '-')", Differs(REGEX, "-a-b-d-")),
    ("'aa' | regex_search('(a)\\\\1')", Differs(REGEX, error="value")),
    "'abc' | regex_replace('b', '-')",
    # precedence and syntax
    "-1 | abs", "-(1) | abs", "2 + 3 | float", "'a' ~ 'b' | upper", "1 if 0 else 2 | float", "not 1 | int", "1 < 2 | int", "[1, 2] | first + 1", "(1 + 2) | string ~ 'x'", "1 +", "(1", "[1", "{'a' 1}", "{'a': }", "1 1", "a b", "'abc", "a.", "a[", "| upper", "1 |", "x is", "x is not", "not", "1 = 1", "a && b", "a || b", "!a", "a ? b : c", "f(", "f(a=1, 2)", "'a' | upper(", "1..2", "a..b", "a.[0]", "@", "1 <> 2", "1 if", "}",
    ("a[]", Differs("a subscript needs an index", error="syntax")),
    ("if", Differs("the words of the grammar are no names", error="syntax")),
    ("else", Differs("the words of the grammar are no names", error="syntax")),
]

TEXTS = [
    "", "plain", "Hello {{ params.name }}!", "{{ params.name }}-{{ params.n }}", "{{params.name}}{{params.id}}", "{{ 1 }} {{ 2.0 }} {{ 1e20 }} {{ 1e16 }} {{ 123456789.125 }} {{ 1e-5 }} {{ 0.0001 }}", " {{ params.id }}x", "a{# comment #}b", "a{# {{ x }} #}b", "a {#- c -#} b", "{% raw %}{{ x }}{% endraw %}", "a {%- raw %} {{ x }} {%- endraw -%} b", "{% raw -%}  x  {%- endraw %}",
    "{% if params.yes %}yes{% endif %}", "{% if params.no %}yes{% else %}no{% endif %}", "{% if params.n == 1 %}one{% elif params.n == 5 %}five{% else %}other{% endif %}", "{% if missing is defined %}a{% elif params.n %}n{% endif %}", "{% for x in params.list %}{{ x }},{% endfor %}", "{% for x in [] %}{{ x }}{% else %}none{% endfor %}", "{% for x in params.list %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in params.list %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}", "{% for x in params.list %}{% if loop.first %}[{% endif %}{{ x }}{% if loop.last %}]{% endif %}{% endfor %}", "{% for x in params.list %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}", "{% for x in [1, 2, 3] %}{{ loop.previtem | default('-') }}<{{ x }}>{{ loop.nextitem | default('-') }} {% endfor %}",
    "{% for k, v in params.map | dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for (a, b) in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}", "{% for x in params.list if x > 1 %}{{ loop.index }}{{ x }} {% endfor %}", "{% for x in params.list if x > 9 %}{{ x }}{% else %}nothing{% endfor %}", "{% for a in [1, 2] %}{% for b in [1, 2] %}{{ loop.depth }}{{ a }}{{ b }} {% endfor %}{% endfor %}", "{% for a in [1, 2] %}{% for b in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for c in 'abc' %}{{ c }}.{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x = 1, 2 %}{{ x | join('-') }}", "{% set x = 1 %}{% set x = x + 1 %}{{ x }}", "{% set a, b = [1, 2] %}{{ a }}{{ b }}", "{% set x = 1 %}{% for i in [1, 2] %}{% set x = 5 %}{% endfor %}{{ x }}", "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }} {% endfor %}", "{% if true %}{% set x = 7 %}{% endif %}{{ x }}", "{% set x %}a{{ params.n }}b{% endset %}[{{ x }}]", "{% set params = {'n': 1} %}{{ params.n }}", "{% for item in [1] %}{{ item }}{% endfor %}{{ item }}", "{% set x = missing %}{{ x | default('d') }}",
    "a  {{- 1 -}}  b", "a  {{ 1 -}}  b", "a  {%- if true -%}  x  {%- endif -%}  b", "a\n{% if true %}\nx\n{% endif %}\nb", "a\n  {%- if true %}\nx{% endif %}", "a {%+ if true +%} x {% endif %}", "{{-1}}", "x{{ -1 }}", "{{ '}}' }}.", "{{ '{{' }}.", "{{ {'a': {'b': 1}}['a']['b'] }}.", "{{ \"%}\" }}{% if '%}' %}ok{% endif %}", "a } b }} c %} d", "{ {a} }", "{a}", "{", "a{", "100%", "{{ params.name }}{", "#{x}",
    "{% if true %}a", "{% if %}a{% endif %}", "{% endif %}", "{% for x in params.list %}a", "{% for x params.list %}a{% endfor %}", "{% for in params.list %}a{% endfor %}", "{% nosuch %}", "{{ }}", "{{", "a {{ b", "{% if true", "{# open", "{% raw %}open", "{{ 1 }", "{% set %}", "{% set 1 = 2 %}", "{% if true %}{% endfor %}", "{% else %}", "{% for x in params.n %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% set a, b = [1] %}",
    "{{ 'a' if params.yes else 'b' }}!", "{{ params.list | join(', ') }}.", "{{ params.list | length }} items", "{{ '%02d' | format(params.n) }}:00", "{% for x in range(3) %}{{ x }}{% endfor %}", "Zürich {{ params.uni }} →", "line1\nline2 {{ params.n }}\nline3",
    ("{{ true }} {{ false }} {{ none }}", Differs(LOWER, "true false none")),
    ("{{ params.list }} ok", Differs(JSONTEXT, "[3,1,2] ok")),
    ("x {{ params.map }}", Differs(JSONTEXT, 'x {"a":2,"b":1}')),
    ("ends {{ 1 }}\n", Differs("a trailing newline is kept", "ends 1\n")),
    ("{% if missing %}a{% else %}b{% endif %}", Differs(ASKED, error="undefined")),
    ("[{{ missing }}]", Differs(STRICT, error="undefined")),
    ("a {{ steps.none.outputs.x }}", Differs(STRICT, error="undefined")),
    ("{% for x in missing %}a{% endfor %}", Differs(STRICT, error="undefined")),
    ("{% for k in params.map %}{{ k }}{% endfor %}", Differs(SORTED, "ab")),
    ("{% for k, v in params.map.items() %}{{ k }}{{ v }}{% endfor %}", Differs(SORTED, "a2b1")),
    "{% macro %}",
    ("{% with %}a{% endwith %}", Differs("if, for, set and raw are the only tags", error="syntax")),
    ("{% macro m() %}a{% endmacro %}b", Differs("if, for, set and raw are the only tags", error="syntax")),
    ("{% for x in [1] recursive %}{{ x }}{% endfor %}.", Differs("no recursive loops", error="syntax")),
    ("{{ x(*[1]) if false else 1 }}.", Differs("arguments are not unpacked", error="unknown_name")),
]


def environment():
    env = jinja2.Environment(undefined=jinja2.ChainableUndefined)

    def flatten(value, levels=None):
        out = []
        for item in value:
            if isinstance(item, list) and (levels is None or levels > 0):
                out += flatten(item, None if levels is None else levels - 1)
            else:
                out.append(item)
        return out

    def search(value, pattern):
        found = re.search(pattern, value)
        return found.group(0) if found else None

    env.filters.update(
        split=str.split, basename=os.path.basename, dirname=os.path.dirname, splitext=os.path.splitext, fromjson=json.loads, flatten=flatten,
        b64encode=lambda s: base64.b64encode(s.encode()).decode(), b64decode=lambda s: base64.b64decode(s).decode(),
        regex_replace=lambda s, p, r: re.sub(p, r, s), regex_search=search, keys=lambda m: list(m.keys()), values=lambda m: list(m.values()))
    env.tests.update(
        startswith=str.startswith, endswith=str.endswith, match=lambda s, p: bool(re.match(p, s)), search=lambda s, p: bool(re.search(p, s)))
    return env


def native(value):
    """value as JSON can hold it; undefined anywhere becomes a marker."""
    if isinstance(value, jinja2.Undefined):
        return {"$undefined": True}
    if isinstance(value, (tuple, list, range, types.GeneratorType)) or type(value).__name__.startswith("dict_"):
        return [native(v) for v in value]
    if isinstance(value, dict):
        return {str(k): native(v) for k, v in value.items()}
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return {"$object": type(value).__name__}


def result(env, kind, source):
    try:
        if kind == "text":
            return {"value": env.from_string(source).render(CONTEXT)}
        value = native(env.compile_expression(source, undefined_to_none=False)(**CONTEXT))
    except Exception as e:  # any failure is the answer
        return {"error": type(e).__name__}
    if value == {"$undefined": True}:
        return {"undefined": True}
    return {"value": value}


def main():
    env = environment()
    cases = []
    for kind, sources in (("expression", EXPRESSIONS), ("text", TEXTS)):
        for source in sources:
            differs = None
            if isinstance(source, tuple):
                source, differs = source
            case = {"kind": kind, "template": source, "jinja2": result(env, kind, source)}
            if differs:
                if differs.reason in (ASKED, NUMBER):
                    case["revision1"] = {"value": differs.was} if differs.was is not None else case["jinja2"]
                case["stepwell"], case["reason"] = differs.out, differs.reason
            cases.append(case)
    json.dump({"jinja2": jinja2.__version__, "context": CONTEXT, "cases": cases}, sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
