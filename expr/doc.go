// Package expr is Jinja2's template language as Stepwell uses it in pipeline
// definitions: {{ expressions }} and conditions, compiled once and evaluated
// many times, with native types, hard budgets and positions in every error.
//
// # Contract
//
// Parse and ParseExpression report every mistake that can be seen without data
// (syntax, unknown filters and tests, wrong arguments) as an *Error with line and
// column. A Template is immutable and safe for concurrent use. Eval never panics,
// never reads anything but its Scope, and ends with CodeBudget when a limit of
// Limits is reached, before the memory is taken. The package is pure: no clock, no
// I/O, no goroutines, no random; equal inputs give equal outputs.
//
// # Values
//
// nil, bool, int64, float64, string, []any and map[string]any. A Scope may also
// return Raw (JSON decoded when it is used), Object (lazy), Go's other numbers,
// json.Number, []string and map[string]string; Eval's result has only the first
// seven, and json.Number for a whole number that neither int64 nor float64 holds exactly.
// A template that is exactly one {{ expression }}, apart from white space
// around it, keeps the value's type ("007" stays a string, a list stays a list);
// anything else renders a string.
//
// # Differences from Jinja2
//
//   - Inside text, true, false and none are written in lower case, lists and
//     mappings as compact JSON. Floats are written as Python writes them.
//   - Undefined is an error wherever it is used, truth and comparisons included, and
//     chainable for attributes; only default, is defined and is undefined accept it. A
//     known name without a value (Absent, a member of none) is false in a condition.
//   - int and float give a default for a value that is no number only if it is written.
//   - A mapping's key hides the method of that name, and a method is never a value: it can
//     only be called.
//   - Integers have 64 bits; an overflow is a CodeBudget error, not a big number.
//   - Tuples are lists. Mapping keys are strings ({1: 2} has the key "1") and
//     mappings iterate in sorted key order, not in insertion order.
//   - tojson is compact and does not escape HTML. groupby yields [key, items] pairs.
//   - A trailing newline of the source is kept. No macros, imports, blocks, includes.
//   - regex_search, regex_replace and the tests match and search use RE2 syntax.
//
// # Why no library
//
// gonja 2.9.1 reads files, runs out of memory and stack on hostile templates and loses the types of values; pongo2 is
// Django's language; mjingo calls itself an early development; expr-lang 1.17.8 and cel-go 0.32 are other languages.
// None of them lists the names a template uses before it runs, or stops at a budget.
//
// testdata/jinja2.json is the table of cases against the real Jinja2, and states every
// difference where it appears; docs/templates.md, the reference for users, is made of it and
// of the tables of this package. Rules that have changed go by Limits.Revision.
// Stability: experimental until version 1.
package expr
