package kube

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// health is what is known of a cluster from the requests to it.
type health struct {
	mu      sync.Mutex
	state   string
	since   time.Time
	err     string
	version string
	unknown int // jobs of executions that the database does not know
}

// States of a cluster.
const (
	StateUnknown = "unknown" // nothing has been asked yet
	StateOK      = "ok"
	StateFailing = "failing" // it cannot be reached, or lets nobody in
)

// Status is what people see of a cluster.
type Status struct {
	ID         string
	Default    bool
	Kind       string // kubeconfig, secret, in_cluster, service or created
	Server     string // its address, without a password, or the name of its service; "" while it is not known
	Namespace  string
	Namespaces []string
	State      string
	Since      time.Time
	Version    string // of the server
	Error      string
	Unknown    int // jobs of this installation whose executions the database does not know
}

// seen notes how a request has ended. A refusal shows that the server is there, unless it is about who asks.
func (h *health) seen(now time.Time, err error) {
	if status := statusOf(err); err == nil || status != 0 && status != http.StatusUnauthorized && status < 500 {
		h.set(StateOK, "", now)
		return
	}
	if stepwell.CodeOf(err) == stepwell.CodeInternal && statusOf(err) == 0 { // cut off by this process
		return
	}
	h.failed(now, err)
}

func (h *health) failed(now time.Time, err error) { h.set(StateFailing, err.Error(), now) }

func (h *health) set(state, text string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != state {
		h.state, h.since = state, now
	}
	h.err = stepwell.Clip(text, 500)
}

// Check asks the cluster for its version, so that Statuses knows how it is. Services of clusters have no such question.
func (c *Cluster) Check(ctx context.Context) error {
	if c.access.Service != "" {
		return nil
	}
	k, err := c.connect(ctx)
	if err != nil {
		return err
	}
	var v struct {
		Version string `json:"gitVersion"`
	}
	if err := k.do(ctx, request{method: http.MethodGet, path: "/version"}, &v); err != nil {
		return atCluster(c.id, err)
	}
	c.health.mu.Lock()
	c.health.version = stepwell.Clip(v.Version, 60)
	c.health.mu.Unlock()
	return nil
}

// Statuses lists all clusters by id, as they were when they were last asked.
func (c *Clusters) Statuses() (list []Status) {
	for _, id := range c.IDs() {
		if known := c.get(id); known != nil {
			list = append(list, known.status())
		}
	}
	return list
}

func (c *Cluster) status() Status {
	s := Status{ID: c.id, Namespace: c.access.Namespace, Namespaces: c.access.Namespaces, Kind: "kubeconfig"}
	if def, err := c.clusters.Find(""); err == nil {
		s.Default = def == c
	}
	switch {
	case c.created != nil:
		s.Kind = KindCreated
	case c.access.Secret != "":
		s.Kind = "secret"
	case c.access.InCluster:
		s.Kind = "in_cluster"
	case c.access.Service != "":
		s.Kind, s.Server = "service", c.access.Service
	}
	c.mu.Lock()
	if c.config != nil {
		s.Server = c.config.Server.Redacted()
		if s.Namespace == "" {
			s.Namespace = c.config.Namespace
		}
	}
	c.mu.Unlock()
	if s.Namespace == "" && s.Server != "" {
		s.Namespace = DefaultNamespace
	}
	h := &c.health
	h.mu.Lock()
	defer h.mu.Unlock()
	s.State, s.Since, s.Error, s.Version, s.Unknown = h.state, h.since, h.err, h.version, h.unknown
	if s.State == "" {
		s.State = StateUnknown
	}
	return s
}
