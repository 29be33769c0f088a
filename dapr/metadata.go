package dapr

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// Metadata is what the sidecar says of itself.
type Metadata struct {
	ID            string                               `json:"id"` // of the app
	Components    []struct{ Name, Type string }        `json:"components"`
	Subscriptions []struct{ PubSubName, Topic string } `json:"subscriptions"`
	App           struct {
		Port int `json:"port"` // 0: the sidecar sends nothing to its app
	} `json:"appConnectionProperties"`
	Scheduler struct {
		Addresses []string `json:"connected_addresses"`
	} `json:"scheduler"`
	Actors struct {
		Status string                  `json:"runtimeStatus"`
		Active []struct{ Type string } `json:"activeActors"`
	} `json:"actorRuntime"`
	Workflows struct {
		Workers int `json:"connectedWorkers"` // programs that take workflows
	} `json:"workflows"`
}

// LacksWorkflows reports whether the sidecar could run actors and has registered those of workflows for no program. After a program has connected
// for workflows that lasts for a moment, or for good: daprd 1.16.0 can deadlock when its last program is killed.
func (m *Metadata) LacksWorkflows() bool {
	return m.Actors.Status == "RUNNING" && !slices.ContainsFunc(m.Actors.Active, func(a struct{ Type string }) bool {
		return strings.HasPrefix(a.Type, "dapr.internal.") && strings.HasSuffix(a.Type, ".workflow")
	})
}

// Shutdown asks the sidecar to end. Who supervises it starts it again.
func (s *Settings) Shutdown(ctx context.Context) error {
	a, err := newSidecar(s.Port, s.Token).call(ctx, http.MethodPost, "/v1.0/shutdown", "", nil)
	if err != nil {
		return err
	}
	return a.ok("to end")
}

// Metadata asks the sidecar. CodeUnavailable when it does not answer, CodeDenied when it does not accept the token.
func (s *Settings) Metadata(ctx context.Context) (*Metadata, error) {
	a, err := newSidecar(s.Port, s.Token).call(ctx, http.MethodGet, "/v1.0/metadata", "", nil)
	if err != nil {
		return nil, err
	}
	if a.status == http.StatusUnauthorized {
		return nil, stepwell.Errorf(stepwell.CodeDenied, tokenHint, "the Dapr sidecar does not accept the token")
	}
	if err := a.ok("its metadata"); err != nil {
		return nil, err
	}
	var m Metadata
	if err := json.Unmarshal(a.body, &m); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the metadata of the Dapr sidecar cannot be read", Hint: "is another program at its port? check DAPR_HTTP_PORT", Err: err}
	}
	return &m, nil
}

// MissingComponents are those that the settings name and the sidecar does not have, each with what it has instead.
func (s *Settings) MissingComponents(m *Metadata) (missing []string) {
	need := map[string]string{} // kind by name
	for i := range s.Subscribe {
		need[s.Subscribe[i].PubSub] = "pubsub"
	}
	if len(s.Publish) > 0 {
		need[s.PubSub] = "pubsub"
	}
	if s.StateStore != "" {
		need[s.StateStore] = "state"
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		at := slices.IndexFunc(m.Components, func(c struct{ Name, Type string }) bool { return c.Name == name })
		switch {
		case at < 0:
			missing = append(missing, fmt.Sprintf("no component %s (%s)", name, need[name]))
		case !strings.HasPrefix(m.Components[at].Type, need[name]+"."):
			missing = append(missing, fmt.Sprintf("the component %s is %s, not %s", name, m.Components[at].Type, need[name]))
		}
	}
	return missing
}

// MissingSubscriptions are the topics of the settings that the sidecar does not deliver.
func (s *Settings) MissingSubscriptions(m *Metadata) (missing []string) {
	for i := range s.Subscribe {
		want := &s.Subscribe[i]
		if !slices.ContainsFunc(m.Subscriptions, func(t struct{ PubSubName, Topic string }) bool {
			return t.PubSubName == want.PubSub && t.Topic == want.Topic
		}) {
			missing = append(missing, want.Topic+" of "+want.PubSub)
		}
	}
	return missing
}
