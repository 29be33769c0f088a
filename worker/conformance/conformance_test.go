package conformance_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/worker/conformance"
	"github.com/stepwell/stepwell/worker/link"
)

// asWorker as the first argument makes this program a worker; the second one is "turns" or "stream",
// the third one a fault of badWorkers.
const asWorker = "worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asWorker {
		var client *http.Client
		if len(os.Args) > 3 {
			client = &http.Client{Transport: badWorkers[os.Args[3]].bad()}
		}
		if err := runWorker(os.Args[2] == "stream", client); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runWorker is a worker made with package link.
func runWorker(streams bool, client *http.Client) error {
	handlers := map[string]action.HandlerFunc{
		"conformance.echo": func(_ context.Context, c *action.Call) (any, error) {
			return map[string]any{"value": c.Params["value"]}, nil
		},
		"conformance.fail": func(_ context.Context, c *action.Call) (any, error) {
			message, _ := c.Params["message"].(string)
			code, _ := c.Params["code"].(string)
			switch err := stepwell.Errorf(stepwell.Code(code), "", "%s", message); {
			case c.Params["skip"] == true:
				return nil, action.Skip(message)
			case c.Params["permanent"] == true:
				return nil, action.Fail(err)
			}
			return nil, errors.New(message)
		},
		"conformance.sleep": func(ctx context.Context, c *action.Call) (any, error) {
			return nil, action.Pause(ctx, time.Duration(number(c, "seconds")*float64(time.Second)))
		},
		"conformance.log": func(_ context.Context, c *action.Call) (any, error) {
			for i := range int(number(c, "lines")) {
				c.Log(fmt.Sprint("line ", i+1), slog.Int("n", i+1))
			}
			return nil, nil
		},
		"conformance.progress": func(ctx context.Context, c *action.Call) (any, error) {
			note, _ := c.Params["note"].(string)
			c.Host.Progress(number(c, "fraction"), note)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		"conformance.memo": func(ctx context.Context, c *action.Call) (any, error) {
			raw, ok, err := c.Host.Recall(ctx, "m")
			if err != nil || ok {
				return map[string]any{"value": raw}, err
			}
			if raw, err = json.Marshal(c.Params["value"]); err == nil {
				err = c.Host.Record(ctx, "m", raw)
			}
			return nil, errors.Join(errors.New("again"), err)
		},
		"conformance.spawn": func(ctx context.Context, c *action.Call) (any, error) {
			for i := range int(number(c, "count")) {
				if err := c.Spawn(ctx, action.NewStep{Name: "leaf", Key: fmt.Sprint(i), Action: "conformance.echo", Params: map[string]any{"value": i}}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"conformance.wait": func(_ context.Context, c *action.Call) (any, error) {
			return nil, action.WaitUntil(time.Now().Add(time.Duration(number(c, "seconds")*float64(time.Second))), map[string]any{"value": c.Params["value"]})
		},
		"conformance.poll": func(_ context.Context, c *action.Call) (any, error) {
			var state struct{ N int }
			if c.State != nil {
				if err := json.Unmarshal(c.State, &state); err != nil {
					return nil, err
				}
			}
			if state.N == int(number(c, "times")) {
				return map[string]any{"polls": state.N}, nil
			}
			state.N++
			return nil, action.Poll(time.Now().Add(10*time.Millisecond), "", state)
		},
		"conformance.outputs": func(ctx context.Context, c *action.Call) (any, error) {
			step, _ := c.Params["step"].(string)
			raw, err := c.Host.Outputs(ctx, step)
			return map[string]any{"outputs": raw}, err
		},
		"conformance.large": func(_ context.Context, c *action.Call) (any, error) {
			return map[string]any{"text": strings.Repeat("x", int(number(c, "bytes")))}, nil
		},
	}
	r := &action.Registry{}
	for _, a := range conformance.Actions() {
		a.Handler = handlers[a.Spec.Name]
		if a.Spec.Name == "conformance.poll" {
			a.Handler = poller{handlers[a.Spec.Name]}
		}
		if err := r.Add(a); err != nil {
			return err
		}
	}
	w, err := link.New(link.Options{Nodes: []string{os.Getenv("STEPWELL_SERVER")}, Name: fmt.Sprint("go-", os.Getpid()), Stream: streams, Client: client, Actions: r,
		Header: http.Header{"Authorization": {"Bearer " + os.Getenv("STEPWELL_API_KEY")}}})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, w.Drain)()
	return w.Run(context.Background())
}

// poller stops work outside by a line.
type poller struct{ action.Handler }

func (poller) Cancel(_ context.Context, c *action.Call) error {
	var state struct{ N int }
	err := json.Unmarshal(c.State, &state)
	c.Log("stopped", slog.Int("n", state.N))
	return err
}

func number(c *action.Call, name string) float64 {
	raw, err := json.Marshal(c.Params[name])
	var n float64
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if err != nil {
		panic(err)
	}
	return n
}

// judge runs the checks on a command.
func judge(t *testing.T, o conformance.Options) {
	t.Helper()
	o.Patience = cmp.Or(o.Patience, 5*time.Minute) // what comes at all is right, also late on a busy machine
	o.Each = func(x conformance.Result) {
		if !x.Passed {
			t.Errorf("%s (%s): %s\n%s", x.Check, x.About, strings.Join(x.Wrong, "; "), x.Printed)
		}
	}
	results, err := conformance.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(conformance.Checks()); len(o.Only) == 0 && len(results) != want {
		t.Errorf("%d results of %d checks", len(results), want)
	}
}

// The Go library passes, by turns and on a stream.
func TestGo(t *testing.T) {
	for _, how := range []string{"turns", "stream", "socket"} {
		t.Run(how, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			judge(t, conformance.Options{Command: []string{self, asWorker, how}, Socket: how == "socket"})
		})
	}
}
