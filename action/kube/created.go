package kube

import (
	"context"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"

	"github.com/stepwell/stepwell"
)

// Created is a cluster that users have created, besides those of the settings. Its kubeconfig is not trusted: it names no file, no program
// and no proxy, and leads to no address that steps may not reach.
type Created struct {
	Context    string
	Namespace  string
	Namespaces []string
	// Kubeconfig returns the text of the kubeconfig.
	Kubeconfig func(context.Context) ([]byte, error)
}

// KindCreated is the kind of the clusters that users have created.
const KindCreated = "created"

// Check reports why a cluster cannot be created (CodeInvalid, CodeDenied, CodeConflict): the settings have one of that id, or its
// kubeconfig or its namespaces are not allowed.
func (c *Clusters) Check(ctx context.Context, id string, given Created) error {
	made, err := c.cluster(id, given)
	if err != nil {
		return err
	}
	if taken := c.get(id); taken != nil && taken.created == nil {
		return stepwell.Errorf(stepwell.CodeConflict, "use another id", "the settings have a cluster %s", id)
	}
	if _, err := made.Namespace(ctx, ""); err != nil {
		return err
	}
	made.mu.Lock()
	cfg := made.config
	made.mu.Unlock()
	if cfg == nil { // its namespace was given
		if cfg, err = made.load(ctx); err != nil {
			return err
		}
	}
	if _, err := newClient(cfg, c.o.Now, nil); err != nil {
		return err
	}
	return c.permitted(ctx, cfg.Server)
}

// Put adds a created cluster, or replaces it. A cluster of the settings with that id stays (CodeConflict).
func (c *Clusters) Put(id string, given Created) error {
	made, err := c.cluster(id, given)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.byID[id]; was != nil && was.created == nil {
		return stepwell.Errorf(stepwell.CodeConflict, "delete the created one, or give that of the settings another id", "the settings have a cluster %s as well", id)
	}
	c.byID[id] = made
	return nil
}

// Remove forgets a created cluster.
func (c *Clusters) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.byID[id]; was != nil && was.created != nil {
		delete(c.byID, id)
	}
}

// cluster makes a created cluster.
func (c *Clusters) cluster(id string, given Created) (*Cluster, error) {
	if !clusterID().MatchString(id) {
		return nil, stepwell.Invalid("letters, digits, - _ and .", "%q is not an id of a cluster", stepwell.Clip(id, 80))
	}
	a := Access{Context: given.Context, Namespace: given.Namespace, Namespaces: given.Namespaces}
	if err := a.validateNamespaces(); err != nil {
		return nil, err
	}
	return &Cluster{id: id, access: a, clusters: c, created: &given}, nil
}

// get returns a cluster by id, nil if there is none.
func (c *Clusters) get(id string) *Cluster {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byID[id]
}

// all are the clusters by id, as they are now.
func (c *Clusters) all() map[string]*Cluster {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.byID)
}

// readCreated reads the kubeconfig of a created cluster.
func (c *Cluster) readCreated(ctx context.Context) (*config, error) {
	text, err := c.created.Kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := parseKubeconfig(text, c.access.Context, "")
	if err != nil {
		return nil, err
	}
	if cfg.Proxy != nil {
		return nil, stepwell.Errorf(stepwell.CodeDenied, "name a kubeconfig file in the settings: kubernetes.clusters", "the kubeconfig of a created cluster must not name a proxy (proxy-url)")
	}
	cfg.guarded = true
	return cfg, nil
}

// allowed reports whether the settings let created clusters use a namespace.
func (c *Cluster) allowed(namespace string) bool {
	return c.created == nil || len(c.clusters.o.Namespaces) == 0 || matchesAny(c.clusters.o.Namespaces, namespace)
}

func matchesAny(patterns []string, namespace string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, namespace)
		return ok
	})
}

// permitted reports why steps may not reach an address.
func (c *Clusters) permitted(ctx context.Context, server *url.URL) error {
	if c.o.Outbound == nil {
		return nil
	}
	port, err := strconv.Atoi(server.Port())
	if err != nil {
		port = map[string]int{"http": 80, "https": 443}[server.Scheme]
	}
	_, err = c.o.Outbound.Permitted(ctx, server.Hostname(), port)
	return err
}
