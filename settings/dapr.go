package settings

import (
	"cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/dapr"
)

// Dapr say what a server does through the sidecar beside it: docs/dapr.md.
type Dapr struct {
	PubSub    string              `json:"pubsub"` // PUBSUB_NAME
	Subscribe []dapr.Subscription `json:"subscribe"`
	Callers   map[string]string   `json:"callers"` // app → role
	Namespace string              `json:"namespace"`
	Jobs      bool                `json:"jobs"`
	Wake      bool                `json:"wake"`
	Publish   []string            `json:"publish" enum:"workflow.execution.status,workflow.step.status,workflow.logs"`
	State     string              `json:"state_store"` // STATE_STORE_NAME
	StateTTL  int                 `json:"state_ttl_seconds" minimum:"0" maximum:"315360000"`
}

// Options are the settings with what the environment of a process beside a sidecar says.
func (d *Dapr) Options(port int, token string, lookup func(string) (string, bool)) (o dapr.Settings, err error) {
	env := func(name string) string { v, _ := lookup(name); return v }
	o = dapr.Settings{Port: port, Token: token, AppToken: env("APP_API_TOKEN"), PubSub: cmp.Or(d.PubSub, env("PUBSUB_NAME")), Subscribe: d.Subscribe,
		Namespace: cmp.Or(d.Namespace, env("NAMESPACE")), Jobs: d.Jobs, Wake: d.Wake, Publish: d.Publish, StateStore: d.State, StateTTL: d.StateTTL}
	if o.StateStore == "" && port != 0 { // the variable is in every environment of the platform
		o.StateStore = env("STATE_STORE_NAME")
	}
	for app, name := range d.Callers {
		var role access.Role
		if err := role.UnmarshalText([]byte(name)); err != nil {
			return o, stepwell.Invalid(stepwell.HintOf(err), "dapr.callers.%s: unknown role %q", app, name)
		}
		if o.Callers == nil {
			o.Callers = map[string]access.Role{}
		}
		o.Callers[app] = role
	}
	return o, o.Validate()
}
