package lsp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lsp"
	"github.com/stepwell/stepwell/scenario"
)

var registry = sync.OnceValues(func() (*action.Registry, error) { return app.Actions(app.Options{}) })

// options are those of a server that finds sub-pipelines beside the document.
func options(t testing.TB) lsp.Options {
	t.Helper()
	cat, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	return lsp.Options{Version: "test", Catalog: cat, Specs: cat.Specs(), Read: os.ReadFile, TestSchema: scenario.Schema(),
		Tests: func(file string, src []byte) definition.Problems {
			_, problems := scenario.Parse(file, src)
			return problems
		},
		Load: func(file string, read func(string) ([]byte, error)) (*lsp.Pipeline, definition.Problems, error) {
			src, err := read(file)
			if err != nil {
				return nil, nil, err
			}
			d, problems := definition.Parse(src, definition.ParseOptions{File: file})
			if d == nil {
				return nil, problems, nil
			}
			p := &lsp.Pipeline{Definition: d, Files: map[string]string{}}
			for _, name := range d.Calls() {
				sub := filepath.Join(filepath.Dir(file), name+".yaml")
				src, err := read(sub)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				} else if err != nil {
					return nil, nil, err
				}
				called, more := definition.Parse(src, definition.ParseOptions{File: sub})
				problems = append(problems, more...)
				if d.Pipelines == nil {
					d.Pipelines = map[string]*definition.Definition{}
				}
				if p.Files[name] = sub; called != nil {
					d.Pipelines[name] = called
				}
			}
			checked, survey := definition.Inspect(d, cat, file)
			p.Survey = survey
			return p, append(problems, checked...), nil
		}}
}

// client is an editor.
type client struct {
	t    testing.TB
	w    io.WriteCloser
	r    *bufio.Reader
	last int
	told map[string]told // the diagnostics that came last, by URI
	done chan error
}

type told struct {
	Version     int
	Diagnostics []struct {
		Range    rng
		Severity int
		Code     string
		Message  string
	}
}

type pos struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type rng struct {
	Start pos `json:"start"`
	End   pos `json:"end"`
}

type edit struct {
	Range   rng    `json:"range"`
	NewText string `json:"newText"`
}

func start(t testing.TB) *client {
	t.Helper()
	return startWith(t, 0)
}

func startWith(t testing.TB, quiet time.Duration) *client {
	t.Helper()
	in, w := io.Pipe()
	r, out := io.Pipe()
	c := &client{t: t, w: w, r: bufio.NewReader(r), told: map[string]told{}, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	o := options(t)
	o.Quiet = quiet
	go func() {
		err := lsp.Serve(ctx, in, out, o)
		_ = out.CloseWithError(io.EOF)
		_ = in.CloseWithError(io.ErrClosedPipe)
		c.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		_ = r.CloseWithError(io.ErrClosedPipe)
		_ = w.Close()
	})
	c.call("initialize", map[string]any{"capabilities": map[string]any{}}, nil)
	c.notify("initialized", map[string]any{})
	return c
}

func (c *client) send(m map[string]any) {
	c.t.Helper()
	m["jsonrpc"] = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c.w, "Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) notify(method string, params any) {
	c.t.Helper()
	c.send(map[string]any{"method": method, "params": params})
}

// received is a message of the server.
type received struct {
	ID     *int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func (c *client) receive() (m received) {
	c.t.Helper()
	header, err := textproto.NewReader(c.r).ReadMIMEHeader()
	if err != nil {
		c.t.Fatal(err)
	}
	n, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil {
		c.t.Fatal(err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.r, body); err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(body, &m); err != nil {
		c.t.Fatal(err)
	}
	if m.Method == "textDocument/publishDiagnostics" {
		var p struct {
			URI string
			told
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			c.t.Fatal(err)
		}
		c.told[p.URI] = p.told
	}
	return m
}

// call returns the message of a refusal.
func (c *client) call(method string, params, into any) string {
	c.t.Helper()
	c.last++
	c.send(map[string]any{"id": c.last, "method": method, "params": params})
	for {
		m := c.receive()
		if m.ID == nil {
			continue
		}
		if *m.ID != c.last {
			c.t.Fatalf("%s: an answer to %d, not %d", method, *m.ID, c.last)
		}
		if m.Error != nil {
			return m.Error.Message
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				c.t.Fatalf("%s: %v: %s", method, err, m.Result)
			}
		}
		return ""
	}
}

// diagnostics waits for those of a version.
func (c *client) diagnostics(uri string, version int) told {
	c.t.Helper()
	for c.told[uri].Version != version {
		c.receive()
	}
	return c.told[uri]
}

// file is the URI of a file in a folder of the test.
func (c *client) file(dir, name string) string {
	return (&url.URL{Scheme: "file", Path: filepath.Join(dir, name)}).String()
}

func (c *client) open(uri, text string) {
	c.t.Helper()
	c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": "yaml", "version": 1, "text": text}})
}

// mark takes the cursor out of a text: it stands at the first ¦.
func mark(t testing.TB, text string) (string, pos) {
	t.Helper()
	before, after, ok := strings.Cut(text, "¦")
	if !ok {
		t.Fatalf("the text has no ¦: %s", text)
	}
	return before + after, pos{strings.Count(before, "\n"), units(before[strings.LastIndexByte(before, '\n')+1:])}
}

func units(s string) (n int) {
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

func at(uri string, p pos) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": uri}, "position": p}
}

// edited is a text after the changes of an editor.
func edited(text string, edits []edit) string {
	offset := func(p pos) int {
		from := 0
		for range p.Line {
			from += strings.IndexByte(text[from:], '\n') + 1
		}
		for n := 0; n < p.Character; {
			r := []rune(text[from:])[0]
			from, n = from+len(string(r)), n+units(string(r))
		}
		return from
	}
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b edit) int { return offset(b.Range.Start) - offset(a.Range.Start) })
	out := text
	for _, e := range edits {
		out = out[:offset(e.Range.Start)] + e.NewText + out[offset(e.Range.End):]
	}
	return out
}
