//go:build unix

package builtin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

func sh(t testing.TB, line string, more ...params) actiontest.Result {
	t.Helper()
	p := params{"command": line}
	for _, m := range more {
		for name, value := range m {
			p[name] = value
		}
	}
	return run(t, "util.exec", actiontest.Call{Params: p, Dir: t.TempDir()})
}

func TestExecStdout(t *testing.T) {
	got := sh(t, `echo one; echo "zwei ü"; echo oops >&2`)
	want(t, got, params{"exit_code": int64(0), "stdout": "one\nzwei ü", "stdout_truncated": false})
	lines := map[string][]string{}
	for _, l := range got.Logs {
		stream := l.Attrs[0].Value.String()
		lines[stream] = append(lines[stream], l.Message)
	}
	if diff := cmp.Diff(map[string][]string{"stdout": {"one", "zwei ü"}, "stderr": {"oops"}}, lines); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestExecList(t *testing.T) {
	got := run(t, "util.exec", actiontest.Call{Params: params{"command": []any{"printf", "%s|", "a b", "$HOME", 5, true, ""}}})
	want(t, got, params{"exit_code": int64(0), "stdout": "a b|$HOME|5|true||", "stdout_truncated": false})
}

func TestExecOutputFile(t *testing.T) {
	tests := map[string]struct {
		line string
		want params
	}{
		"object":           {`echo '{"n": 3, "list": [1, {"a": null}], "big": 9007199254740993}' > "$STEPWELL_OUTPUT"`, params{"n": int64(3), "list": []any{int64(1), params{"a": nil}}, "big": int64(9007199254740993), "exit_code": int64(0)}},
		"lines":            {`printf 'a=1\n\nb.c-d=x=y z \r\na=007\n_e=' >> "$STEPWELL_OUTPUT"`, params{"a": "007", "b.c-d": "x=y z ", "_e": "", "exit_code": int64(0)}},
		"own exit code":    {`echo exit_code=seven > "$STEPWELL_OUTPUT"`, params{"exit_code": "seven"}},
		"several writers":  {`for i in 1 2 3; do (echo "k$i=$i" >> "$STEPWELL_OUTPUT"); done`, params{"k1": "1", "k2": "2", "k3": "3", "exit_code": int64(0)}},
		"renamed in place": {`echo '{"a":1}' > "$STEPWELL_OUTPUT.tmp" && mv "$STEPWELL_OUTPUT.tmp" "$STEPWELL_OUTPUT"`, params{"a": int64(1), "exit_code": int64(0)}},
		"empty object":     {`echo '{}' > "$STEPWELL_OUTPUT"; echo hi`, params{"exit_code": int64(0), "stdout": "hi", "stdout_truncated": false}},
		"white space only": {`echo > "$STEPWELL_OUTPUT"; echo hi`, params{"exit_code": int64(0), "stdout": "hi", "stdout_truncated": false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { want(t, sh(t, test.line), test.want) })
	}
	want(t, sh(t, "echo secret", params{"capture": false}), params{"exit_code": int64(0)})
}

func TestExecOutputFileRefused(t *testing.T) {
	tests := map[string]struct{ line, text string }{
		"no key":      {`printf 'a=1\nhello\n' > "$STEPWELL_OUTPUT"`, `line 2: "hello" does not begin with key=`},
		"bad key":     {`echo '9 a=1' > "$STEPWELL_OUTPUT"`, "line 1"},
		"broken JSON": {`printf '{"a": 1,\n "b": }\n' > "$STEPWELL_OUTPUT"`, "line 2: invalid character"},
		"list":        {`echo '[1]' > "$STEPWELL_OUTPUT"`, "line 1"},
		"garbage":     {`printf 'a=\377\376' > "$STEPWELL_OUTPUT"`, "not UTF-8"},
		"too large":   {`head -c 16777217 /dev/zero > "$STEPWELL_OUTPUT"`, "has 16777217 bytes, more than 16777216"},
		"pipe":        {`rm "$STEPWELL_OUTPUT"; mkfifo "$STEPWELL_OUTPUT"`, "not a regular file"},
		"link":        {`ln -sf /etc/passwd "$STEPWELL_OUTPUT"`, "not a regular file"},
		"removed":     {`rm "$STEPWELL_OUTPUT"`, "STEPWELL_OUTPUT"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := sh(t, test.line)
			wantFail(t, got, test.text)
			if !action.IsFail(got.Err) {
				t.Errorf("%v would be retried", got.Err)
			}
		})
	}
}

func TestExecStdin(t *testing.T) {
	tests := map[string]struct {
		params params
		want   string
	}{
		"nothing":      {params{}, ""},
		"object":       {params{"input": params{"b": []any{1, "ü"}, "a": int64(9007199254740993)}}, `{"a":9007199254740993,"b":[1,"ü"]}`},
		"input string": {params{"input": "x"}, `"x"`},
		"input null":   {params{"input": nil}, "null"},
		"stdin text":   {params{"stdin": "raw $HOME"}, "raw $HOME"},
		"stdin JSON":   {params{"stdin": []any{1}}, "[1]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want(t, sh(t, "cat", test.params), params{"exit_code": int64(0), "stdout": test.want, "stdout_truncated": false})
		})
	}
	// A program that does not read what it is given is no failure and no deadlock.
	want(t, sh(t, "echo done", params{"input": strings.Repeat("x", 1<<20)}), params{"exit_code": int64(0), "stdout": "done", "stdout_truncated": false})
}

func TestExecEnvironment(t *testing.T) {
	t.Setenv("STEPWELL_TEST_SECRET", "s3cret")
	t.Setenv("STEPWELL_TEST_PASSED", "passed on")
	t.Setenv("LANG", "C.UTF-8")
	p := params{"env": params{"A": "b c", "N": 1.5, "T": true, "PATH": os.Getenv("PATH")}, "pass_env": []any{"STEPWELL_TEST_PASSED", "STEPWELL_TEST_UNSET"}}
	p["command"] = []any{"env"}
	got := run(t, "util.exec", actiontest.Call{Params: p, Execution: "e1", StepKey: "s:1", Attempt: 3})
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	seen := map[string]string{}
	for line := range strings.Lines(got.Outputs["stdout"].(string)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		seen[name] = value
	}
	if !filepath.IsAbs(seen["STEPWELL_OUTPUT"]) {
		t.Errorf("STEPWELL_OUTPUT = %q", seen["STEPWELL_OUTPUT"])
	}
	if _, err := os.Stat(filepath.Dir(seen["STEPWELL_OUTPUT"])); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
	delete(seen, "STEPWELL_OUTPUT")
	expected := map[string]string{"A": "b c", "N": "1.5", "T": "true", "STEPWELL_TEST_PASSED": "passed on",
		"STEPWELL_EXECUTION": "e1", "STEPWELL_STEP": "s:1", "STEPWELL_ATTEMPT": "3", "STEPWELL_IDEMPOTENCY_KEY": "e1/s:1"}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			expected[name] = value
		}
	}
	if diff := cmp.Diff(expected, seen); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestExecDir(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(base, "sub", "tool")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\npwd\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	at := func(p params) actiontest.Result {
		return run(t, "util.exec", actiontest.Call{Params: p, Dir: base})
	}
	for _, p := range []params{
		{"command": "pwd", "dir": "sub"},
		{"command": "./tool", "dir": "sub"},
		{"command": []any{"./tool"}, "dir": filepath.Join(base, "sub")},
		{"command": []any{"tool"}, "dir": "sub", "env": params{"PATH": "/nowhere:" + filepath.Dir(script)}},
		{"command": []any{"tool"}, "dir": "sub", "env": params{"PATH": "."}},
	} {
		want(t, at(p), params{"exit_code": int64(0), "stdout": filepath.Dir(script), "stdout_truncated": false})
	}
	wantFail(t, at(params{"command": "pwd", "dir": "nowhere"}), "dir: ")
	wantFail(t, at(params{"command": "pwd", "dir": "sub/tool"}), "is not a directory")
}

func TestExecExitCodes(t *testing.T) {
	got := sh(t, "echo to stdout; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i >&2; done; exit 3")
	if stepwell.CodeOf(got.Err) != stepwell.CodeFailed || action.IsFail(got.Err) {
		t.Fatalf("got %v, want a failure that may be retried", got.Err)
	}
	if text := got.Err.Error(); !strings.HasPrefix(text, "the command ended with exit code 3: line 3\n") || !strings.HasSuffix(text, "\nline 12") {
		t.Errorf("message %q", text)
	}
	if got = sh(t, "echo only stdout; exit 1"); !strings.HasSuffix(got.Err.Error(), "exit code 1: only stdout") {
		t.Errorf("message %q", got.Err)
	}
	want(t, sh(t, "exit 2", params{"success_codes": []any{0, 2}}), params{"exit_code": int64(2), "stdout": "", "stdout_truncated": false})
	if got = sh(t, "exit 0", params{"success_codes": []any{1}}); got.Err == nil {
		t.Error("exit code 0 completed the step although only 1 does")
	}
	skip := params{"skip_exit_codes": []any{99}, "retry_exit_codes": []any{75}}
	got = sh(t, "echo nothing new >&2; exit 99", skip)
	if reason, ok := got.Skipped(); !ok || !strings.Contains(reason, "nothing new") {
		t.Errorf("got %v, want a skip", got.Err)
	}
	if got = sh(t, "exit 75", skip); got.Err == nil || action.IsFail(got.Err) {
		t.Errorf("exit code 75: %v, want a failure that may be retried", got.Err)
	}
	if got = sh(t, "exit 1", skip); !action.IsFail(got.Err) {
		t.Errorf("exit code 1: %v, want a failure for good", got.Err)
	}
	got = sh(t, "kill -9 $$")
	if got.Err == nil || !strings.Contains(got.Err.Error(), "exit code 137") || !strings.Contains(stepwell.HintOf(got.Err), "memory") {
		t.Errorf("killed: %v, hint %q", got.Err, stepwell.HintOf(got.Err))
	}
}

func TestExecCannotStart(t *testing.T) {
	dir := t.TempDir()
	files := map[string]os.FileMode{"plain": 0o644, "empty": 0o755, "orphan": 0o755}
	content := map[string]string{"plain": "x", "empty": "\x01\x02", "orphan": "#!/no/such/interpreter\n"}
	for name, mode := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content[name]), mode); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		command any
		hint    string
	}{
		{[]any{"no-such-program-here"}, "install"},
		{[]any{"./missing"}, "install"},
		{[]any{"./plain"}, "chmod +x"},
		{[]any{"./empty"}, "#!"},
		{[]any{"./orphan"}, "interpreter"},
		{[]any{"echo", strings.Repeat("x", 4<<20)}, "input"},
	}
	for _, test := range tests {
		got := run(t, "util.exec", actiontest.Call{Params: params{"command": test.command}, Dir: dir})
		if !action.IsFail(got.Err) || !strings.Contains(stepwell.HintOf(got.Err), test.hint) {
			t.Errorf("%.60v: %v, hint %q; want a failure for good with %q in its hint", test.command, got.Err, stepwell.HintOf(got.Err), test.hint)
		}
	}
	got := sh(t, "true", params{"shell": "no-such-shell"})
	if !action.IsFail(got.Err) || !strings.Contains(got.Err.Error(), "no-such-shell") {
		t.Errorf("shell: %v", got.Err)
	}
}

func TestExecRefuses(t *testing.T) {
	tests := []struct {
		params params
		text   string
	}{
		{params{}, "command is missing"},
		{params{"command": "  "}, "command: is empty"},
		{params{"command": []any{}}, "names no program"},
		{params{"command": []any{"echo", nil}}, "command[1]"},
		{params{"command": []any{"echo", "a\x00b"}}, "command[1]"},
		{params{"command": "a\x00b"}, "NUL"},
		{params{"command": 5}, "neither a string nor a list"},
		{params{"command": "cat", "input": 1, "stdin": 1}, "beside stdin"},
		{params{"command": "env", "env": params{"A=B": 1}}, "not a name of a variable"},
		{params{"command": "env", "env": params{"A": []any{}}}, "env.A"},
		{params{"command": "env", "env": params{"STEPWELL_OUTPUT": "x"}}, "set by Stepwell"},
		{params{"command": "env", "pass_env": []any{"A=B"}}, "pass_env"},
		{params{"command": "env", "success_codes": []any{256}}, "success_codes"},
		{params{"command": "env", "grace_seconds": 301}, "grace_seconds"},
		{params{"comand": "env", "command": "env"}, "comand"},
	}
	for _, test := range tests {
		wantFail(t, run(t, "util.exec", actiontest.Call{Params: test.params}), test.text)
	}
}

// TestExecLanguages runs programs of other languages that are here.
func TestExecLanguages(t *testing.T) {
	programs := map[string]string{
		"python3": "import json,os,sys\nd=json.load(sys.stdin)\njson.dump({'sum':sum(d['n'])},open(os.environ['STEPWELL_OUTPUT'],'w'))",
		"node":    "const fs=require('fs');const d=JSON.parse(fs.readFileSync(0));fs.writeFileSync(process.env.STEPWELL_OUTPUT,JSON.stringify({sum:d.n.reduce((a,b)=>a+b)}))",
		"perl":    "local $/; my @n = <STDIN> =~ /\\d+/g; my $s = 0; $s += $_ for @n; open(F, '>', $ENV{STEPWELL_OUTPUT}); print F qq({\"sum\": $s});",
	}
	flags := map[string]string{"python3": "-c", "node": "-e", "perl": "-e"}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			got := run(t, "util.exec", actiontest.Call{Params: params{"command": []any{name, flags[name], program}, "input": params{"n": []any{1, 2, 39}}}})
			if strings.Contains(stepwell.HintOf(got.Err), "install the program") {
				t.Skipf("%s is not installed: reading and writing JSON from it is left out", name)
			}
			want(t, got, params{"sum": int64(42), "exit_code": int64(0)})
		})
	}
}

func FuzzParseOutputs(f *testing.F) {
	for _, seed := range []string{"", "a=1\n", `{"a": [1, 2]}`, "{", "a\n", "a=\xff", "\r\n\r\n=", " {}", "{}{}", "a=1\r\nb=2"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		outputs, err := parseOutputs(content)
		if err != nil {
			return
		}
		raw, err := action.Outputs(outputs)
		if err != nil || !json.Valid(raw) {
			t.Fatalf("outputs %s of %q: %v", raw, content, err)
		}
	})
}

func TestExecCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, _ := registry(t).Lookup("util.exec")
	got := actiontest.Run(ctx, *a, actiontest.Call{Params: params{"command": "touch here"}, Dir: t.TempDir()})
	if stepwell.CodeOf(got.Err) != stepwell.CodeCancelled {
		t.Errorf("got %v", got.Err)
	}
}
