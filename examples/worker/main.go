// A worker of one's own: an action in a process of its own, which a Stepwell server hands steps to.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker/link"
)

type params struct {
	Text string `json:"text" doc:"What is counted."`
}

type outputs struct {
	Words int `json:"words"`
}

// words counts the words of a text. It has all that actions of the program itself have: log, progress, memos, waits.
var words = action.Of(spec.Spec{Name: "words.count", Summary: "Counts the words of a text."},
	func(_ context.Context, call *action.Call, p params) (*outputs, error) {
		call.Log("counting")
		return &outputs{len(strings.Fields(p.Text))}, nil
	})

func main() {
	if err := run(os.Args[1], os.Getenv("STEPWELL_API_KEY")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the action until the process is told to stop.
func run(server, key string) error {
	actions := &action.Registry{}
	if err := actions.Add(words); err != nil {
		return err
	}
	host, _ := os.Hostname()
	o := link.Options{Nodes: []string{server}, Name: fmt.Sprintf("words-%s-%d", host, os.Getpid()), Stream: true, Actions: actions, Header: http.Header{}}
	if key != "" { // a server on this machine without keys needs none
		o.Header.Set("Authorization", "Bearer "+key)
	}
	w, err := link.New(o)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() { <-stop; w.Drain() }()
	return w.Run(context.Background())
}
