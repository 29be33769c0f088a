package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream/files"
)

// outgoing are the settings about what steps may reach. They are in the settings file only; credentials of S3 come from
// the environment (AWS_*) alone.
type outgoing struct {
	HTTP     outbound.Options `json:"http"`
	Services serviceSettings  `json:"services"`
	S3       files.S3Options  `json:"s3"`
	Schemas  schema.Options   `json:"schemas"`
	Streams  struct {
		Checkpoints string `json:"checkpoints"`
		Shared      string `json:"shared"`
	} `json:"streams"`
}

// serviceSettings say where services are, and add to their table, by the names of actions.
type serviceSettings struct {
	service.Options
	Actions map[string]service.Endpoint `json:"actions"`
}

// clock is the machine's. A test shifts it.
var clock = time.Now

// options are those of an App that go with the settings.
func (p *program) options() (app.Options, error) {
	o := app.Options{Data: p.settings.data, Synchronous: p.settings.sync.value, Workers: p.settings.workers, Now: clock}
	if o.Data == "" || !p.settings.inFile() {
		o.DB = p.settings.db
	}
	s := &p.settings.outgoing
	o.HTTP, o.S3, o.Schemas, o.Checkpoints, o.SharedStreams = s.HTTP, s.S3, s.Schemas, s.Streams.Checkpoints, s.Streams.Shared
	p.engineOptions(&o)
	var err error
	o.Services, err = p.serviceOptions()
	return o, err
}

// engineOptions are what a server and a single run have in common: queues, prices and the key of secrets.
func (p *program) engineOptions(o *app.Options) {
	s := p.settings.serving
	for name, q := range s.Queues {
		if o.Queues == nil {
			o.Queues = map[string]queue.Limits{}
		}
		o.Queues[name] = q.Limits
	}
	for name, c := range s.Prices {
		if o.Prices == nil {
			o.Prices = map[string]app.Price{}
		}
		o.Prices[name] = app.Price{PerCall: int64(c.PerCall), PerSecond: int64(c.PerSecond), PerInputToken: int64(c.PerInputToken), PerOutputToken: int64(c.PerOutputToken)}
	}
	o.MasterKey.File = s.Secrets.KeyFile
	if file, _ := p.env("STEPWELL_SECRETS_KEY_FILE"); file != "" {
		o.MasterKey.File = file
	}
	o.MasterKey.Text, _ = p.env("STEPWELL_SECRETS_KEY")
}

// platformApps are the services whose app ids the platform says in variables such as BUDCLUSTER_APP_ID (budpipeline §11).
var platformApps = []string{"budapp", "budcluster", "budmodel", "budsim", "budnotify", "budmetrics"}

// serviceOptions say where services are. A process beside a Dapr sidecar is told its port by the
// environment.
func (p *program) serviceOptions() (service.Options, error) {
	s := &p.settings.outgoing.Services
	o := s.Options
	o.AppIDs, o.Limits = map[string]string{}, p.settings.outgoing.HTTP
	maps.Copy(o.AppIDs, s.AppIDs)
	if text, ok := p.env("DAPR_HTTP_PORT"); ok && text != "" && o.DaprPort == 0 {
		port, err := strconv.Atoi(text)
		if err != nil {
			return o, stepwell.Invalid("", "DAPR_HTTP_PORT: %q is not a port", text)
		}
		o.DaprPort = port
	}
	o.DaprToken, _ = p.env("DAPR_API_TOKEN")
	for _, name := range platformApps {
		if id, _ := p.env(strings.ToUpper(name) + "_APP_ID"); id != "" && o.AppIDs[name] == "" {
			o.AppIDs[name] = id
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Actions)) {
		e := s.Actions[name]
		e.Action, e.Method, e.CancelMethod = name, strings.ToUpper(e.Method), strings.ToUpper(e.CancelMethod)
		for i := range e.Params {
			e.Params[i].Type = cmp.Or(e.Params[i].Type, spec.Any)
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	return o, nil
}

// registry has the actions that go with the settings.
func (p *program) registry() (*action.Registry, error) {
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	return app.Actions(o)
}
