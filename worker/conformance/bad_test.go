package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/worker/conformance"
)

// bad changes what a worker says and hears.
type bad struct {
	mu   sync.Mutex
	say  func(call string, body map[string]any)            // changes a call's body
	hear func(call string, answer map[string]any)          // changes an answer
	send func(call string, r *http.Request) *http.Response // answers in the node's place; nil: it does not
}

// badWorkers are workers with one fault each, and the checks that find it.
var badWorkers = map[string]struct {
	found string
	bad   func() *bad
}{
	"says nothing of what it holds": {"heartbeat", func() *bad {
		return &bad{say: func(_ string, body map[string]any) { delete(body, "holding") }}
	}},
	"does not stop": {"stop", func() *bad {
		return &bad{hear: func(_ string, answer map[string]any) { answer["stop"] = []any{} }}
	}},
	"forgets outcomes whose answer was lost": {"lost", func() *bad { return forgetful() }},
	"forgets outcomes while the node is unavailable": {"restart", func() *bad {
		joins, lost := 0, []any{}
		return &bad{
			say: func(call string, body map[string]any) {
				if outcomes, ok := body["outcomes"].([]any); ok && joins > 1 {
					lost = append(lost, outcomes...)
					delete(body, "outcomes")
				}
			},
			hear: func(call string, answer map[string]any) {
				if call == "join" {
					joins++
				} else if committed, ok := answer["committed"].([]any); ok {
					answer["committed"] = append(committed, lost...)
				}
			},
		}
	}},
	"announces cancels and does not hear of them": {"cancels", func() *bad {
		return &bad{hear: func(_ string, answer map[string]any) { delete(answer, "cancels") }}
	}},
	"keeps refused outcomes": {"refused", func() *bad {
		return &bad{hear: func(_ string, answer map[string]any) { answer["refused"] = []any{} }}
	}},
	"reports another outcome than it has": {"echo", func() *bad {
		return &bad{say: func(_ string, body map[string]any) {
			outcomes, _ := body["outcomes"].([]any)
			for _, o := range outcomes {
				o.(map[string]any)["output"] = map[string]any{"value": 1}
			}
		}}
	}},
	"floods": {"flood", func() *bad {
		return &bad{say: func(_ string, body map[string]any) {
			outcomes, _ := body["outcomes"].([]any)
			for _, x := range append(outcomes, body) {
				for _, name := range []string{"log", "lines"} {
					document := x.(map[string]any)
					lines, _ := document[name].([]any)
					for len(lines) > 900 && len(lines) <= 10_000 {
						lines = append(lines, lines...)
					}
					if lines != nil {
						document[name] = lines
					}
				}
			}
		}}
	}},
	"leaves lines out": {"log", func() *bad {
		return &bad{say: func(_ string, body map[string]any) {
			outcomes, _ := body["outcomes"].([]any)
			for _, o := range outcomes {
				delete(o.(map[string]any), "log")
			}
			delete(body, "lines")
		}}
	}},
	"makes transient failures of permanent ones": {"fail", func() *bad {
		return &bad{say: func(_ string, body map[string]any) {
			outcomes, _ := body["outcomes"].([]any)
			for _, o := range outcomes {
				delete(o.(map[string]any), "permanent")
			}
		}}
	}},
	"speaks without its key": {"joins", func() *bad {
		return &bad{send: func(_ string, r *http.Request) *http.Response { r.Header.Del("Authorization"); return nil }}
	}},
	"prints its key": {"echo", func() *bad {
		return &bad{send: func(_ string, r *http.Request) *http.Response {
			fmt.Fprintln(os.Stderr, r.Header.Get("Authorization"))
			return nil
		}}
	}},
	"does not say that it leaves": {"leaves", func() *bad {
		return &bad{say: func(_ string, body map[string]any) { delete(body, "leaving") }}
	}},
	"stays when it is drained": {"drain", func() *bad {
		return &bad{hear: func(_ string, answer map[string]any) { delete(answer, "drain") }}
	}},
	"ends at once": {"leaves", func() *bad {
		return &bad{say: func(_ string, body map[string]any) {
			if body["leaving"] == true {
				os.Exit(1)
			}
		}}
	}},
	"does not say why it was refused": {"protocol", func() *bad {
		return &bad{hear: func(call string, answer map[string]any) {
			if call == "join" && answer["message"] != nil {
				answer["message"] = "no"
			}
		}}
	}},
	"takes no pause": {"busy", func() *bad {
		return &bad{send: func(_ string, r *http.Request) *http.Response {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				panic(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(raw))
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
				return resp
			}
			for range 20 {
				go func() {
					for {
						again := r.Clone(context.Background())
						again.Body = io.NopCloser(bytes.NewReader(raw))
						if resp, err := http.DefaultTransport.RoundTrip(again); err == nil {
							_ = resp.Body.Close()
						}
					}
				}()
			}
			return resp
		}}
	}},
	"stumbles over what it does not know": {"unknown", func() *bad {
		return &bad{hear: func(_ string, answer map[string]any) {
			if answer["x_later"] != nil {
				os.Exit(1)
			}
		}}
	}},
	"gives up when its step is taken from it": {"late", func() *bad {
		first := ""
		return &bad{hear: func(_ string, answer map[string]any) {
			tasks, _ := answer["tasks"].([]any)
			for _, t := range tasks {
				id, _ := t.(map[string]any)["step_id"].(string)
				if id == first {
					os.Exit(1)
				}
				first = id
			}
		}}
	}},
}

// forgetful takes outcomes for committed, whatever the node says.
func forgetful() *bad {
	var offered []any
	return &bad{
		say: func(call string, body map[string]any) {
			if outcomes, ok := body["outcomes"].([]any); ok && call == "turn" {
				for _, o := range outcomes {
					if !slices.ContainsFunc(offered, func(x any) bool { return same(x, o) }) {
						offered = append(offered, o)
						continue
					}
					delete(body, "outcomes") // once is enough
				}
			}
		},
		hear: func(call string, answer map[string]any) {
			if call != "turn" || answer["tasks"] == nil {
				return
			}
			for _, o := range offered {
				answer["committed"] = append(answer["committed"].([]any), o)
			}
		},
	}
}

func same(a, b any) bool {
	x, y := a.(map[string]any), b.(map[string]any)
	return x["step_id"] == y["step_id"] && x["epoch"] == y["epoch"]
}

// RoundTrip implements http.RoundTripper.
func (b *bad) RoundTrip(r *http.Request) (*http.Response, error) {
	call := strings.TrimPrefix(r.URL.Path, wire.Path)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	raw = b.changed(call, raw, b.say)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	if b.send != nil {
		if resp := b.send(call, r); resp != nil {
			return resp, nil
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || b.hear == nil {
		return resp, err
	}
	raw, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	raw = b.changed(call, raw, b.hear)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return resp, err
}

func (b *bad) changed(call string, raw []byte, f func(string, map[string]any)) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var document map[string]any
	if f == nil || json.Unmarshal(raw, &document) != nil {
		return raw
	}
	f(call, document)
	if out, err := json.Marshal(document); err == nil {
		return out
	}
	return raw
}

// Each fault is found by the check that is for it.
func TestBadWorkers(t *testing.T) {
	long(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(5) // they mostly wait
	for fault, is := range badWorkers {
		g.Go(func() error {
			o := conformance.Options{Command: []string{self, asWorker, "turns", fault}, Only: []string{is.found}, Patience: 2 * time.Second}
			results, err := conformance.Run(t.Context(), o)
			if err != nil || len(results) != 1 || results[0].Passed {
				t.Errorf("a worker that %s: %+v, %v", fault, results, err)
			}
			return nil
		})
	}
	_ = g.Wait() // never an error
}
