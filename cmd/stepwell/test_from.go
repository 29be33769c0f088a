package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/rehearsal"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/view"
)

// testFrom writes a test of an execution that has ended: to a file with large outputs in files beside it, or whole to standard output.
func (p *program) testFrom(c *connection, id, to string) error {
	if to != "" && !strings.HasSuffix(to, ".test.yaml") && !strings.HasSuffix(to, ".test.yml") {
		return stepwell.Invalid("name it like nightly.test.yaml", "--to %s is no file of tests", to)
	}
	actions, err := p.registry()
	if err != nil {
		return err
	}
	return p.calling(c, func(ctx context.Context, client *client.Client) error {
		args := []string{id}
		if err := c.newest.resolve(ctx, client, args); err != nil {
			return err
		}
		r, err := recorded(ctx, client, args[0], actions)
		if err != nil {
			return err
		}
		if to == "" {
			return r.WriteTest(p.out, actions, nil)
		}
		var b bytes.Buffer
		out := map[string][]byte{}
		if err := r.WriteTest(&b, actions, apart(out, to)); err != nil {
			return err
		}
		large := len(out)
		out[to] = b.Bytes()
		for path := range out {
			if _, err := os.Stat(path); err == nil {
				return stepwell.Invalid("delete it, or name another file", "%s is there already: nothing was written", path)
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
		fmt.Fprintf(p.err, "wrote a test in %s%s\n", view.Printable(to), beside(large))
		return nil
	})
}

// beside says how many outputs are in files of their own.
func beside(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", with large outputs of %d steps in files beside it", n)
}

// apart collects the outputs that are too large for a test file, by the paths of files in a folder beside it.
func apart(large map[string][]byte, test string) func(step string, outputs json.RawMessage) string {
	folder := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(test), filepath.Ext(test)), ".test") + ".outputs"
	return func(step string, outputs json.RawMessage) string {
		name := strings.Map(func(r rune) rune {
			if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
				return r
			}
			return '_'
		}, step)
		name = fmt.Sprintf("%d-%s.json", len(large)+1, stepwell.Head(name, 60))
		large[filepath.Join(filepath.Dir(test), folder, name)] = outputs
		return folder + "/" + name
	}
}

// recorded reads an execution.
func recorded(ctx context.Context, c *client.Client, id string, actions *action.Registry) (*scenario.Recording, error) {
	return rehearsal.Record(ctx, c, id, func(action string) bool {
		about, ok := actions.Spec(action)
		return ok && about.Stream != nil
	})
}
