package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker/link"
)

// plug is a plugin for tests: plug good NAME, or one that does something wrong.
func plug() {
	how := os.Args[1]
	switch how {
	case "dies":
		fmt.Println("there is no licence")
		os.Exit(7)
	case "silent": // joins, and says nothing more
		path := strings.TrimPrefix(os.Getenv("STEPWELL_SERVER"), "unix://")
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
		for i := range 2 { // the second is that of another process of it
			body := fmt.Sprintf(`{"worker": "x", "instance": "%d", "protocol": 1, "concurrency": 1, "actions": [{"name": "mute.do"}]}`, i)
			req, err := http.NewRequest(http.MethodPost, "http://localhost"+wire.Path+"join", strings.NewReader(body))
			if err != nil {
				panic(err)
			}
			req.Header.Set("Authorization", "Bearer "+os.Getenv("STEPWELL_API_KEY"))
			answer, err := client.Do(req)
			if err != nil {
				panic(err)
			}
			fmt.Println("joins:", answer.Status)
			_ = answer.Body.Close()
		}
		time.Sleep(time.Hour) // not select {}: without cgo, the runtime would call that a deadlock, and end
	case "floods":
		line := strings.Repeat("x", 10_000) + "\n"
		for range 5_000 {
			fmt.Print(line)
		}
	}
	name := os.Args[2]
	if err := link.Serve("2.3", plugActions(name)...); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func plugActions(name string) []action.Action {
	outside := outside{}
	return []action.Action{
		{Spec: spec.Spec{Name: name + ".upper", Summary: "Makes a text louder.", Params: []spec.Field{{Name: "text", Type: spec.String, Required: true}}, OpenOutputs: true},
			Handler: action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
				c.Log("louder")
				return map[string]any{"text": strings.ToUpper(fmt.Sprint(c.Params["text"]))}, nil
			})},
		hand(name+".env", func(context.Context, *action.Call) (any, error) {
			var names []string
			for _, line := range os.Environ() {
				variable, _, _ := strings.Cut(line, "=")
				names = append(names, variable)
			}
			slices.Sort(names)
			return map[string]any{"names": strings.Join(names, " "), "colour": os.Getenv("COLOUR")}, nil
		}),
		hand(name+".die", func(ctx context.Context, c *action.Call) (any, error) { // the attempt that follows completes
			if _, found, err := c.Host.Recall(ctx, "died"); err != nil || found {
				return map[string]any{"died": found}, err
			}
			if err := c.Host.Record(ctx, "died", []byte("true")); err != nil {
				return nil, err
			}
			os.Exit(3)
			return nil, nil
		}),
		hand(name+".poison", func(context.Context, *action.Call) (any, error) { os.Exit(4); return nil, nil }),
		hand(name+".eat", func(ctx context.Context, _ *action.Call) (any, error) {
			var all [][]byte
			for {
				all = append(all, bytes.Repeat([]byte{1}, 1<<20))
				if err := action.Pause(ctx, time.Millisecond); err != nil { // it must not be faster than who watches it on a busy machine
					return len(all), err
				}
			}
		}),
		hand(name+".block", func(ctx context.Context, _ *action.Call) (any, error) {
			_ = os.WriteFile("blocked", nil, 0o600)
			for {
				if _, err := os.Stat("go-on"); err == nil {
					return map[string]any{"ended": true}, nil
				}
				if err := action.Pause(ctx, 5*time.Millisecond); err != nil {
					return nil, err
				}
			}
		}),
		{Spec: spec.Spec{Name: name + ".outside", Summary: "For tests.", OpenParams: true}, Handler: outside},
	}
}
