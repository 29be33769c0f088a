//go:build unix

package main

import (
	"strings"
	"testing"
)

// TestDocsFindings shows what TestDocs finds in a page, one page for each rule.
func TestDocsFindings(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no marking":             {"```yaml\na: 1\n```\n", "the block has no marking"},
		"unknown marking":        {"<!-- perhaps -->\n```yaml\na: 1\n```\n", `unknown marking "perhaps"`},
		"no reason":              {"<!-- not run: -->\n```text\n```\n", `unknown marking`},
		"no such test":           {"<!-- run by: TestNothingOfThisName -->\n```sh\nls\n```\n", "there is no test"},
		"the block does not end": {"<!-- validate -->\n```yaml\na: 1\n", "the block does not end"},
		"invalid pipeline":       {"<!-- validate -->\n```yaml\nname: x\nsteps:\n  - {id: a, action: util.lgo}\n```\n", "util.lgo"},
		"invalid fragment":       {"<!-- validate -->\n```yaml\n- {id: a, action: util.noop, retry: {attempts: 3}}\n```\n", "attempts"},
		"fragment":               {"<!-- validate -->\n```yaml\n- {id: a, action: util.noop, depends_on: [other]}\n```\n", ""},
		"invalid settings":       {"<!-- validate: settings -->\n```yaml\nserver: {listen_on: x}\n```\n", "listen_on"},
		"invalid JSON":           {"<!-- validate -->\n```json\n{\"a\": }\n```\n", "invalid character"},
		"unknown command":        {"<!-- not run: slow -->\n```sh\nstepwell walk FILE\n```\n", `unknown command "walk"`},
		"unknown flag":           {"<!-- not run: slow -->\n```console\n$ stepwell run a.yaml --fast\n```\n", "unknown flag: --fast"},
		"missing argument":       {"<!-- not run: slow -->\n```sh\nA=1 stepwell validate 2>&1 | cat\n```\n", "FILE is missing"},
		"command in the text":    {"Try `stepwell run FILE --quick`.\n", "unknown flag: --quick"},
		"past the usual marking": {"<!-- blocks: validate -->\n```json\n{}\n```\n\n```json\n{\n```\n", "unexpected EOF"},
		"run":                    {"<!-- run -->\n```console\n$ echo a; A=b\na\n$ echo $A; echo 12:00:01.250 >&2\nb\n11:59:59.000\n$ printf 'a\\nb\\nc\\n'\na\n…\nc\n```\n", ""},
		"other output":           {"<!-- run -->\n```console\n$ echo a\nb\n```\n", "echo a says\na\nand not\nb"},
		"more output":            {"<!-- run -->\n```console\n$ echo a; echo b\na\n```\n", "says"},
		"other exit code":        {"<!-- run -->\n```sh\nfalse\n```\n", "exit code 1, want 0"},
		"exit code":              {"<!-- run: exit 3 -->\n```sh\n(exit 3)\n```\n", ""},
		"file":                   {"<!-- file: a/b.txt -->\n```text\nhello\n```\n\n<!-- run -->\n```console\n$ cat a/b.txt\nhello\n```\n", ""},
		"invalid file":           {"<!-- file: a.yaml -->\n```yaml\nname: x\nsteps: [{id: a, action: util.lgo}]\n```\n", "util.lgo"},
		"file elsewhere":         {"<!-- file: ../a -->\n```text\n```\n", "outside of the page's folder"},
		"until":                  {"<!-- run: until -->\n```console\n$ echo x >> log; wc -l < log\n3\n```\n", ""},
		"here-document":          {"<!-- run -->\n```console\n$ cat <<'END' | sort\nb\na\nEND\na\nb\n```\n", ""},
		"background":             {"<!-- run: background -->\n```console\n$ echo begun; sleep 1000\nbegun\n```\n\n<!-- run -->\n```console\n$ echo on\non\n```\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := readPage("page.md", c.text)
			p.check(t)
			switch all := strings.Join(p.findings, "\n"); {
			case c.want == "" && all != "":
				t.Error(all)
			case c.want != "" && !strings.Contains(all, c.want):
				t.Errorf("it finds %q, want %q", all, c.want)
			}
		})
	}
}

// TestDocsUpdate writes the outputs of a page's commands anew, and leaves the rest as it is.
func TestDocsUpdate(t *testing.T) {
	before := *update
	*update = true
	defer func() { *update = before }()
	p := readPage("page.md", "Text\n\n<!-- run -->\n```console\n$ echo a; echo b\nx\n$ echo same\nsame\n$ echo c\n```\n\nMore\n")
	p.check(t)
	if want := "Text\n\n<!-- run -->\n```console\n$ echo a; echo b\na\nb\n$ echo same\nsame\n$ echo c\nc\n```\n\nMore\n"; p.text() != want || len(p.findings) > 0 {
		t.Errorf("%v: %s", p.findings, p.text())
	}
}

// TestSplitCommands splits lines of a shell into commands and words.
func TestSplitCommands(t *testing.T) {
	for text, want := range map[string]string{
		`stepwell run a.yaml -p who="Ada L" # greets`:  "stepwell run a.yaml -p who=Ada L",
		`A=1 B='x y' stepwell serve >log 2>&1 &`:       "stepwell serve",
		"curl -d '{\"a\": 1}' \\\n  http://x | jq .id": `curl -d {"a": 1} http://x / jq .id`,
		`id=$(stepwell executions list | head -n 1)`:   "stepwell executions list / head -n 1",
		"cd x && (umask 077; ls)":                      "cd x / umask 077 / ls",
		"cat <<E > f\nrun & (it)\nE":                   "cat",
		`echo "open`:                                   "unfinished",
		"ls \\":                                        "unfinished",
		"cat <<E\nrun":                                 "unfinished",
	} {
		commands, whole := splitCommands(text)
		var all []string
		for _, words := range commands {
			all = append(all, strings.Join(words, " "))
		}
		got := strings.Join(all, " / ")
		if !whole {
			got = "unfinished"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
