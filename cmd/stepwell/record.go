package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/view"
)

// taping records the requests and commands of one execution, or has them answered from a folder.
//
// Recordings are written into a temporary folder. When the execution has ended, all that has turned out to be secret is hidden in them,
// and they are put into their folder only if nothing of it is left in any of them.
type taping struct {
	dir     string // of the recordings; when they are made, the pipeline's own
	root    string // of all that are made
	tests   string // where a test of the execution is written; "": nowhere
	tape    *action.Tape
	replays bool
	apart   int // outputs of the test in files of their own

	known     *secret.Redactor             // what has turned out to be secret
	guard     atomic.Pointer[secret.Guard] // of the database; nil: there is none
	execution atomic.Pointer[string]
}

// minTold is the length in bytes from which a value is hidden that only its place makes secret: shorter ones would garble texts.
const minTold = 6

func newTaping(dir string, replays bool) *taping {
	t := &taping{dir: dir, replays: replays, known: secret.NewRedactor()}
	t.tape = &action.Tape{Dir: dir, Root: dir, Hide: t.hide, Learn: t.learn}
	return t
}

func (t *taping) learn(values ...string) {
	for _, v := range values {
		if len(v) >= minTold && v != secret.Hidden {
			t.known.Add(v)
		}
	}
}

// begin is for a test of a pipeline that begins: its values are the only secrets, and the calls are counted anew.
func (t *taping) begin(pipeline string, secrets []string) {
	t.known = secret.NewRedactor()
	t.known.Add(secrets...)
	t.tape.Begin(recordingsOf(t.dir, pipeline))
}

func (t *taping) hide(text string) string {
	if g := t.guard.Load(); g != nil {
		text = g.Text(t.of(), text)
	}
	return t.known.Text("", text)
}

func (t *taping) of() string {
	if id := t.execution.Load(); id != nil {
		return *id
	}
	return ""
}

// knows reports whether a text holds a secret.
func (t *taping) knows(text string) bool {
	g := t.guard.Load()
	return t.known.Knows("", text) || g != nil && g.Redactor.Knows(t.of(), text)
}

// recordings are the names of recordings: of requests and of commands.
var recordings = regexp.MustCompile(`^(exec-)?[0-9a-f]{24}-[0-9]+\.json$`)

// plainName is a pipeline's name that can be a folder's on every system.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// folderOf is where the recordings of a pipeline are within the folder of recordings.
func folderOf(pipeline string) string {
	if plainName.MatchString(pipeline) && !strings.HasSuffix(pipeline, ".") {
		return pipeline
	}
	sum := sha256.Sum256([]byte(pipeline))
	return "pipeline-" + hex.EncodeToString(sum[:8])
}

// recordingsOf is the folder with the recordings of a pipeline: its own, or, if it has none, the whole one, as it was recorded before
// 2026-11-29 or is named by whoever asks for a pipeline's own folder.
func recordingsOf(dir, pipeline string) string {
	own := filepath.Join(dir, folderOf(pipeline))
	if info, err := os.Stat(own); err == nil && info.IsDir() {
		return own
	}
	return dir
}

// allRecordings are the recordings in a folder and in those of its pipelines, as paths in it.
func allRecordings(dir string) (names []string, err error) {
	if names, err = recordingsIn(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		within, err := recordingsIn(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		for _, name := range within {
			names = append(names, filepath.Join(e.Name(), name))
		}
	}
	return names, nil
}

// recordingsIn are the recordings in a folder, in order; none if there is no such folder.
func recordingsIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !e.IsDir() && recordings.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// record has a run's requests and commands recorded. done removes what is left.
func (p *program) record(f *runFlags, file, pipeline string) (t *taping, done func(), err error) {
	if f.resume || f.server != "" {
		return nil, nil, stepwell.Invalid("leave one of them out", "an execution is recorded from its beginning, in this process: not with --resume or --server")
	}
	done = func() {}
	for _, dir := range []string{f.recordHTTP, f.record} { // before anything runs
		if info, err := os.Stat(dir); dir != "" && err == nil && !info.IsDir() {
			return nil, nil, stepwell.Invalid("name a folder, which need not be there", "%s is a file: nothing can be recorded in it", dir)
		}
	}
	switch {
	case f.replayHTTP != "":
		names, err := allRecordings(f.replayHTTP)
		if err == nil && len(names) == 0 {
			err = noRecordings(f.replayHTTP)
		}
		t = newTaping(f.replayHTTP, true)
		t.tape.Begin(recordingsOf(f.replayHTTP, pipeline))
		return t, done, err
	case f.recordHTTP == "":
		t = newTaping("", false)
		t.tape = nil
	default:
		tmp, err := os.MkdirTemp("", "stepwell-record-")
		if err != nil {
			return nil, nil, err
		}
		done = func() { os.RemoveAll(tmp) } // what cannot be deleted stays in the system's folder for temporary files
		t = newTaping(filepath.Join(f.recordHTTP, folderOf(pipeline)), false)
		t.root, t.tape.Dir, t.tape.Root = f.recordHTTP, tmp, tmp
	}
	if f.record != "" {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		t.tests = filepath.Join(f.record, name+".test.yaml")
	}
	return t, done, nil
}

func noRecordings(dir string) error {
	return stepwell.Errorf(stepwell.CodeNotFound, "stepwell run FILE --record-http "+dir, "there are no recordings in %s", dir)
}

// keep writes what was recorded of an execution that has ended.
func (t *taping) keep(ctx context.Context, s *session, x *api.ExecutionDetail, file string) error {
	out := map[string][]byte{} // by path
	if t.tape != nil {
		names, err := recordingsIn(t.tape.Dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			raw, err := os.ReadFile(filepath.Join(t.tape.Dir, name))
			if err != nil {
				return err
			}
			if raw, err = t.swept(raw); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			out[filepath.Join(t.dir, name)] = raw
		}
	}
	if t.tests != "" {
		large := map[string][]byte{}
		raw, err := s.testOf(ctx, x.ID, file, t.tests, large)
		if err != nil {
			return err
		}
		out[t.tests] = []byte(t.hide(string(raw)))
		for path, raw := range large {
			if raw, err = t.hidden(raw); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(path), err)
			}
			out[path] = raw
		}
		t.apart = len(large)
	}
	for path, raw := range out {
		if where, clean := t.clean(raw); !clean {
			return stepwell.Errorf(stepwell.CodeDenied, "hand it to the step as secrets.NAME, or as a parameter that is declared secret",
				"nothing was recorded: %s would hold a secret, %s", filepath.Base(path), where)
		}
	}
	return t.write(s, out)
}

// write replaces what was recorded of the pipeline before. Recordings of other pipelines stay.
func (t *taping) write(s *session, out map[string][]byte) error {
	replaced := ""
	if t.tape != nil {
		before, err := recordingsIn(t.dir)
		if err != nil {
			return err
		}
		if len(before) > 0 {
			replaced = fmt.Sprintf(", in place of the %d that were there", len(before))
		}
		for _, name := range before {
			if out[filepath.Join(t.dir, name)] == nil {
				if err := os.Remove(filepath.Join(t.dir, name)); err != nil {
					return err
				}
			}
		}
	}
	for path, raw := range out {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return err
		}
	}
	if n := len(out); t.tape != nil {
		if t.tests != "" {
			n -= 1 + t.apart
		}
		fmt.Fprintf(s.program.err, "recorded %d requests and commands in %s%s\n", n, view.Printable(t.dir), replaced)
		if err := t.tellOthers(s.program); err != nil {
			return err
		}
	}
	if t.tests != "" {
		fmt.Fprintf(s.program.err, "recorded a test in %s%s\n", view.Printable(t.tests), beside(t.apart))
	}
	return nil
}

// tellOthers warns of recordings of no pipeline, as they were made before 2026-11-29: this pipeline is answered from its own folder now.
func (t *taping) tellOthers(p *program) error {
	others, err := recordingsIn(t.root)
	if err == nil && len(others) > 0 {
		fmt.Fprintf(p.err, "stepwell: warning: %d recordings in %s itself name no pipeline; they answer only pipelines without a folder of their own there\n", len(others), view.Printable(t.root))
	}
	return err
}

// testOf is a test file of an execution, for a path. What is too large for it is put into large, by path.
func (s *session) testOf(ctx context.Context, id, file, path string, large map[string][]byte) ([]byte, error) {
	r, err := recorded(ctx, s.client, id, s.app.Actions)
	if err != nil {
		return nil, err
	}
	from, err := filepath.Abs(filepath.Dir(path))
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err == nil {
		file, err = filepath.Rel(from, file)
	}
	if err != nil {
		return nil, err
	}
	r.File = filepath.ToSlash(file)
	var b bytes.Buffer
	err = r.WriteTest(&b, s.app.Actions, apart(large, path))
	return b.Bytes(), err
}

// hidden is a JSON object without secrets.
func (t *taping) hidden(raw []byte) ([]byte, error) {
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, err
	}
	changed := false
	if v = t.without(v, "", &changed); !changed {
		return raw, nil
	}
	return json.MarshalIndent(v, "", "  ")
}

// swept is a recording in which what has turned out to be secret afterwards is hidden, but for the call itself, by which it is found.
func (t *taping) swept(raw []byte) ([]byte, error) {
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, err
	}
	r, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not a recording")
	}
	changed := false
	for _, name := range []string{"response", "outputs", "error"} {
		if r[name] != nil {
			r[name] = t.without(r[name], "", &changed)
		}
	}
	if !changed {
		return raw, nil
	}
	out, err := json.MarshalIndent(r, "", "  ")
	return append(out, '\n'), err
}

// without hides secrets in the texts of a value.
func (t *taping) without(v any, name string, changed *bool) any {
	switch v := v.(type) {
	case string:
		now := t.hide(v)
		if name == "base64" {
			if plain, err := base64.StdEncoding.DecodeString(v); err == nil {
				now = v
				if hidden := t.hide(string(plain)); hidden != string(plain) {
					now = base64.StdEncoding.EncodeToString([]byte(hidden))
				}
			}
		}
		*changed = *changed || now != v
		return now
	case []any:
		for i := range v {
			v[i] = t.without(v[i], "", changed)
		}
	case map[string]any:
		for key := range v {
			v[key] = t.without(v[key], key, changed)
		}
	case nil, bool:
	default: // a number
		if text := fmt.Sprint(v); t.hide(text) != text {
			*changed = true
			return "***"
		}
	}
	return v
}

// clean is the last scan: it looks at a file's text, and at each text in it if it is JSON.
func (t *taping) clean(raw []byte) (where string, ok bool) {
	if v, err := expr.Decode(raw); err == nil {
		if where := t.found(v, ""); where != "" {
			return "in " + strings.TrimPrefix(where, "."), false
		}
	}
	for i, line := range strings.Split(string(raw), "\n") {
		if t.knows(line) {
			return fmt.Sprintf("in line %d", i+1), false
		}
	}
	return "", !t.knows(string(raw))
}

// found is where a value holds a secret; "": nowhere.
func (t *taping) found(v any, at string) string {
	switch v := v.(type) {
	case string:
		if t.knows(v) {
			return at
		}
		if plain, err := base64.StdEncoding.DecodeString(v); err == nil && t.knows(string(plain)) {
			return at
		}
	case []any:
		for i := range v {
			if where := t.found(v[i], fmt.Sprintf("%s[%d]", at, i)); where != "" {
				return where
			}
		}
	case map[string]any:
		for key, value := range v {
			if t.knows(key) {
				return at
			}
			if where := t.found(value, at+"."+key); where != "" {
				return where
			}
		}
	}
	return ""
}

// checkAge warns of recordings that are older than they should be.
func (p *program) checkAge(dir, limit string) error {
	most, err := parseAge(limit)
	if err != nil {
		return err
	}
	names, err := allRecordings(dir)
	if err != nil {
		return err
	}
	now, old, oldest := clock(), 0, time.Time{}
	for _, name := range names {
		at, err := recordedAt(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if now.Sub(at) > most {
			if old++; oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
	}
	if old > 0 {
		fmt.Fprintf(p.err, "stepwell: warning: %d of %d recordings in %s are older than %s, the oldest is of %s (record them anew: stepwell run FILE --record-http %s)\n",
			old, len(names), view.Printable(dir), limit, oldest.UTC().Format(time.DateOnly), view.Printable(dir))
	}
	return nil
}

// recordedAt is when a recording was made; of an old one, when its file was written.
func recordedAt(path string) (time.Time, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	var r struct {
		At time.Time `json:"recorded_at"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return time.Time{}, stepwell.Invalid("delete it, or record it anew: stepwell run FILE --record-http "+filepath.Dir(path), "%s is no recording: %v", filepath.Base(path), err)
	}
	if !r.At.IsZero() {
		return r.At, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// parseAge reads 36h, 1d or 2w.
func parseAge(text string) (time.Duration, error) {
	units := []string{"d", "w"}
	if i := slices.IndexFunc(units, func(u string) bool { return strings.HasSuffix(text, u) }); i >= 0 {
		var n int
		if _, err := fmt.Sscanf(text[:len(text)-1], "%d", &n); err == nil && n > 0 && n < 100_000 && fmt.Sprint(n) == text[:len(text)-1] {
			return time.Duration(n) * []time.Duration{24 * time.Hour, 7 * 24 * time.Hour}[i], nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, stepwell.Invalid("such as 36h, 1d or 2w", "--check %q is no age", text)
	}
	return d, nil
}
