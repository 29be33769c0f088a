package app

import (
	"context"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/plugin"
	"github.com/stepwell/stepwell/resource"
)

// pluginsJoinIn is how long a server that starts waits for its plugins, so that their actions are known when it is ready.
const pluginsJoinIn = 10 * time.Second

// buildPlugins makes what runs the plugins. CodeInvalid: one is not described right, or named like actions of this program.
func (s *Server) buildPlugins() (err error) {
	for name := range s.o.Plugins {
		for _, own := range s.Actions.Names() {
			if strings.HasPrefix(own, name+".") && !s.Actions.Announced(own) {
				return stepwell.Invalid("choose another name", "plugins.%s: %s is an action of this program", name, own)
			}
		}
	}
	s.plugins, err = plugin.New(plugin.Options{Programs: s.o.Plugins, Desk: s.workers.desk, Lease: s.workers.desk.Lease(), Host: workerName(), Hide: s.hide, Now: s.now, Log: s.log})
	return err
}

// awaitPlugins waits until the plugins have joined, or ended once.
func (s *Server) awaitPlugins(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, pluginsJoinIn)
	defer end()
	s.plugins.Await(ctx)
}

// pluginsAPI is api.Options.Plugins.
func (s *Server) pluginsAPI() (list []api.Plugin) {
	for _, x := range s.plugins.List() {
		out := api.Plugin{Name: x.Name, State: x.State, PID: x.PID, Since: resource.At(x.Since), Restarts: x.Restarts, Error: x.Error, Actions: []string{}}
		if w := x.Worker; w != nil {
			out.Version, out.Worker, out.Concurrency, out.Held, out.Actions = w.Version, w.Name, w.Concurrency, w.Held, append(out.Actions, w.Actions...)
		}
		list = append(list, out)
	}
	return list
}
