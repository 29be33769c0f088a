package link

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/stepwell/stepwell/action"
)

// Serve is the main function of a worker that has these actions alone, and of a plugin: it joins the server that STEPWELL_SERVER names,
// with the key in STEPWELL_API_KEY, and runs steps until SIGTERM or an interrupt; then it finishes what it holds. A second signal
// stops it at once.
func Serve(version string, actions ...action.Action) error {
	all := &action.Registry{}
	if err := all.Add(actions...); err != nil {
		return err
	}
	host, _ := os.Hostname() // a name is only for people
	o := Options{Nodes: strings.Split(cmp.Or(os.Getenv("STEPWELL_SERVER"), "http://127.0.0.1:8010"), ","), Name: fmt.Sprintf("%s-%d", host, os.Getpid()), Stream: true, Version: version, Actions: all, Header: http.Header{}}
	if key := strings.TrimSpace(os.Getenv("STEPWELL_API_KEY")); key != "" { // a server on this machine without keys needs none
		o.Header.Set("Authorization", "Bearer "+key)
	}
	w, err := New(o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	joining, endJoin := context.WithCancel(ctx)
	defer endJoin()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		endJoin()
		w.Drain()
		<-signals
		stop()
	}()
	if err := w.Join(joining); err != nil {
		if joining.Err() != nil {
			return nil // told to end before it has joined: it holds nothing
		}
		return err
	}
	return w.Run(ctx)
}
