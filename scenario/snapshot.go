package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
)

// snapshotFolder is beside the test file.
const snapshotFolder = "__snapshots__"

// snapshots compares with what was recorded, or records it.
func (r *run) snapshots(ctx context.Context) error {
	for _, kind := range r.t.snapshot {
		text, err := r.record(ctx, kind)
		if err != nil {
			return err
		}
		name := r.t.snapshotFile(kind)
		if r.o.Update {
			if err := writeSnapshot(name, text); err != nil {
				return err
			}
			continue
		}
		was, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.add(r.t.Pos, "there is no snapshot "+name, "--update records it: look at it before you commit it")
		case err != nil:
			return err
		case !bytes.Equal(bytes.ReplaceAll(was, []byte("\r\n"), []byte("\n")), text):
			r.add(r.t.Pos, fmt.Sprintf("the %s differ from %s: %s", plural[kind], name, firstDifference(string(was), string(text))), "--update records the new ones")
		}
	}
	return nil
}

var plural = map[string]string{"plan": "steps of the plan", "calls": "calls", "history": "events", "outputs": "outputs"}

func writeSnapshot(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// snapshotFile is where a snapshot is kept.
func (t *Test) snapshotFile(kind string) string {
	base := filepath.Base(t.File)
	for _, suffix := range Suffixes {
		base = strings.TrimSuffix(base, suffix)
	}
	var b strings.Builder
	for _, c := range strings.ToLower(t.Name) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteRune(c)
		} else if s := b.String(); s != "" && s[len(s)-1] != '-' {
			b.WriteByte('-')
		}
	}
	ext := ".json"
	if kind == "calls" || kind == "history" {
		ext = ".txt"
	}
	return filepath.Join(filepath.Dir(t.File), snapshotFolder, base+"."+strings.Trim(stepwell.Head(b.String(), 100), "-")+"."+kind+ext)
}

// record is what a snapshot of a kind holds.
func (r *run) record(ctx context.Context, kind string) ([]byte, error) {
	var b bytes.Buffer
	switch kind {
	case "plan":
		def, err := r.load(r.t.Pipeline)
		if err != nil {
			return nil, err
		}
		raw, err := definition.Encode(definition.Expand(def, r.o.Actions))
		if err != nil {
			return nil, err
		}
		err = json.Indent(&b, raw, "", "  ")
		b.WriteByte('\n')
		return b.Bytes(), err
	case "outputs":
		v, err := r.outputs(r.x.Outputs)
		if err != nil {
			return nil, err
		}
		raw, err := expr.Marshal(v)
		if err == nil {
			err = json.Indent(&b, raw, "", "  ")
		}
		b.WriteByte('\n')
		return b.Bytes(), err
	case "calls":
		for _, c := range r.calls {
			fmt.Fprintf(&b, "%s #%d %s %s\n", c.Key, c.Attempt, c.Action, r.hidden(c.Params))
		}
		return b.Bytes(), nil
	}
	events, err := r.world.Store.Events(ctx, r.x.No, 0, 10_000)
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s %s %s\n", e.At.Sub(r.x.Created), cmp.Or(e.StepKey, "execution"), e.Type, e.Detail)
	}
	return b.Bytes(), err
}

// hidden is the JSON of params without secrets.
func (r *run) hidden(params map[string]any) string {
	raw, err := expr.Marshal(params)
	if err != nil {
		return err.Error()
	}
	text := string(raw)
	for _, value := range r.t.Secrets {
		if value != "" {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}

// firstDifference is the first line in which two texts differ.
func firstDifference(was, is string) string {
	a, b := strings.Split(strings.ReplaceAll(was, "\r\n", "\n"), "\n"), strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "(end)", "(end)"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("line %d was %q and is %q", i+1, stepwell.Clip(x, 200), stepwell.Clip(y, 200))
		}
	}
	return "line ends"
}
