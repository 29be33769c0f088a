package settings

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream/files"
)

// Outgoing are the settings about what steps may reach. They are in the settings file only; credentials of S3 come from
// the environment (AWS_*) alone.
type Outgoing struct {
	HTTP     outbound.Options `json:"http"`
	Services Services         `json:"services"`
	Git      Git              `json:"git"`
	Kube     kube.Options     `json:"kubernetes"`
	S3       files.S3Options  `json:"s3"`
	Schemas  schema.Options   `json:"schemas"`
	Streams  struct {
		Checkpoints string `json:"checkpoints"`
		Shared      string `json:"shared"`
	} `json:"streams"`
}

// Git say how steps reach git repositories, and how much of them.
type Git struct {
	Protocols  []string `json:"protocols" enum:"https,http,ssh,file"` // defaults to https
	CAFile     string   `json:"ca_file"`
	KnownHosts string   `json:"known_hosts"`
	MaxBytes   ByteSize `json:"max_bytes" minimum:"1024" maximum:"1099511627776"`
	CacheBytes ByteSize `json:"cache_bytes" minimum:"1024" maximum:"1099511627776"`
}

// Services say where services are, and add to their table, by the names of actions.
type Services struct {
	service.Options
	Actions map[string]service.Endpoint `json:"actions"`
}

// platformApps are the services whose app ids the platform says in variables such as BUDCLUSTER_APP_ID (budpipeline §11).
var platformApps = []string{"budapp", "budcluster", "budmodel", "budsim", "budnotify", "budmetrics"}

// AddTo adds what steps may reach. Errors are CodeInvalid.
func (g *Outgoing) AddTo(o *app.Options, lookup func(string) (string, bool)) (err error) {
	o.HTTP, o.S3, o.Schemas, o.Checkpoints, o.SharedStreams = g.HTTP, g.S3, g.Schemas, g.Streams.Checkpoints, g.Streams.Shared
	o.Git = git.Options{Protocols: g.Git.Protocols, CAFile: g.Git.CAFile, KnownHosts: g.Git.KnownHosts, MaxBytes: int64(g.Git.MaxBytes), CacheBytes: int64(g.Git.CacheBytes)}
	o.Kubernetes = g.Kube
	o.Services, err = g.services(lookup)
	return err
}

// services say where services are. A process beside a Dapr sidecar is told its port by the environment.
func (g *Outgoing) services(lookup func(string) (string, bool)) (service.Options, error) {
	s := &g.Services
	o := s.Options
	o.AppIDs, o.Limits = map[string]string{}, g.HTTP
	maps.Copy(o.AppIDs, s.AppIDs)
	if text, ok := lookup("DAPR_HTTP_PORT"); ok && text != "" && o.DaprPort == 0 {
		port, err := strconv.Atoi(text)
		if err != nil {
			return o, stepwell.Invalid("", "DAPR_HTTP_PORT: %q is not a port", text)
		}
		o.DaprPort = port
	}
	o.DaprToken, _ = lookup("DAPR_API_TOKEN")
	for _, name := range platformApps {
		if id, _ := lookup(strings.ToUpper(name) + "_APP_ID"); id != "" && o.AppIDs[name] == "" {
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
