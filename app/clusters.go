package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// Limits of created clusters.
const (
	maxClusters = 1000
	// clusterPatience is how long the answer about a cluster waits for the cluster itself.
	clusterPatience = 5 * time.Second
	checkedAtOnce   = 8
)

// storedCluster is how a created cluster is stored.
type storedCluster struct {
	Sealed     []byte   `json:"sealed"` // its kubeconfig
	Context    string   `json:"context,omitempty"`
	Namespace  string   `json:"namespace,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	By         string   `json:"by"`
}

// sealedCluster binds a kubeconfig to its cluster.
func sealedCluster(id string) string { return "cluster/" + id }

// storedClusters are the created clusters of the database, which the steps' clusters follow.
type storedClusters struct {
	*resource.Set[storedCluster]
	app *App
}

func clusterSet(ctx context.Context, objects store.Objects) (*resource.Set[storedCluster], error) {
	return resource.Open(ctx, resource.Options[storedCluster]{Kind: resource.Kind{Name: "cluster", Noun: "cluster", Param: "id"}, Objects: objects, Most: maxClusters,
		Label: func(*storedCluster) string { return "" }})
}

// openClusters loads the created clusters. Their kubeconfigs are opened when they are used.
func openClusters(ctx context.Context, a *App) (*storedClusters, error) {
	set, err := clusterSet(ctx, a.Store)
	s := &storedClusters{set, a}
	if err == nil {
		for _, item := range set.All(func(*resource.Item[storedCluster]) bool { return true }) {
			s.put(&item)
		}
	}
	return s, err
}

func (s *storedClusters) put(item *resource.Item[storedCluster]) {
	if err := s.app.kube.clusters.Put(item.ID, s.given(item.ID, &item.Value)); err != nil {
		s.app.log.Warn("a created cluster cannot be used", "cluster", item.ID, "error", err)
	}
}

func (s *storedClusters) given(id string, c *storedCluster) kube.Created {
	return kube.Created{Context: c.Context, Namespace: c.Namespace, Namespaces: c.Namespaces, Kubeconfig: func(context.Context) ([]byte, error) {
		return s.app.Keyring.Open(c.Sealed, sealedCluster(id))
	}}
}

// Refresh reads again what another process has changed.
func (s *storedClusters) Refresh(ctx context.Context, changed []store.Object) error {
	if err := s.Set.Refresh(ctx, changed); err != nil {
		return err
	}
	for i := range changed {
		if changed[i].Kind != "cluster" {
			continue
		}
		if item, there := s.ByID(changed[i].ID); there {
			s.put(&item)
		} else {
			s.app.kube.clusters.Remove(changed[i].ID)
		}
	}
	return nil
}

// resealClusters seals with the first master key the kubeconfigs that are sealed with another one, and returns their number.
func resealClusters(ctx context.Context, objects store.Objects, keys *secret.Keyring) (n int, err error) {
	set, err := clusterSet(ctx, objects)
	if err != nil {
		return 0, err
	}
	for _, item := range set.All(func(i *resource.Item[storedCluster]) bool { return !keys.Current(i.Value.Sealed) }) {
		text, failed := keys.Open(item.Value.Sealed, sealedCluster(item.ID))
		if failed == nil {
			_, failed = set.Update(ctx, item.ID, item.Revision, func(c *storedCluster) (err error) {
				c.Sealed, err = keys.Seal(text, sealedCluster(item.ID))
				return err
			})
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("cluster %s: %w", item.ID, failed))
			continue
		}
		n++
	}
	return n, err
}

// clusters are the clusters of an App for the API.
type clusters struct {
	*App
	asks bool // nothing else asks the clusters how they are
}

// Create implements api.Clusters.
func (s *clusters) Create(ctx context.Context, n *api.NewCluster, actor string) (*api.ClusterMade, error) {
	c := storedCluster{Context: n.Context, Namespace: n.Namespace, Namespaces: n.Namespaces, By: actor}
	given := s.stored.given(n.ID, &c)
	given.Kubeconfig = func(context.Context) ([]byte, error) { return []byte(n.Kubeconfig), nil }
	err := s.kube.clusters.Check(ctx, n.ID, given)
	if err != nil {
		return nil, err
	}
	if c.Sealed, err = s.Keyring.Seal([]byte(n.Kubeconfig), sealedCluster(n.ID)); err != nil {
		return nil, err
	}
	item, err := s.stored.Create(ctx, n.ID, c)
	if err != nil {
		return nil, err
	}
	s.stored.put(&item)
	s.ask(ctx, n.ID)
	made, err := s.Get(ctx, n.ID)
	if err != nil {
		return nil, err
	}
	return &api.ClusterMade{Cluster: *made}, nil
}

// ask asks a cluster how it is, so that its status says so.
func (s *clusters) ask(ctx context.Context, id string) {
	if c, err := s.kube.clusters.Find(id); err == nil {
		ctx, end := context.WithTimeoutCause(ctx, clusterPatience, stepwell.Errorf(stepwell.CodeUnavailable, "", "no answer within %s", clusterPatience))
		defer end()
		_ = c.Check(ctx) // in its status
	}
}

// Get implements api.Clusters.
func (s *clusters) Get(ctx context.Context, id string) (*api.Cluster, error) {
	if s.asks {
		s.ask(ctx, id)
	}
	list := s.list()
	at := slices.IndexFunc(list, func(c api.Cluster) bool { return c.ID == id })
	if at < 0 {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, spec.DidYouMean(id, s.kube.clusters.IDs()), "there is no cluster %s", stepwell.Clip(id, 80))
	}
	return &list[at], nil
}

// List implements api.Clusters.
func (s *clusters) List(ctx context.Context, _ *api.All) ([]api.Cluster, error) {
	if s.asks {
		var g errgroup.Group
		g.SetLimit(checkedAtOnce)
		for _, id := range s.kube.clusters.IDs() {
			g.Go(func() error { s.ask(ctx, id); return nil })
		}
		_ = g.Wait() // each says in its status how it is
	}
	return s.list(), nil
}

func (s *clusters) list() (list []api.Cluster) {
	for _, c := range s.kube.clusters.Statuses() {
		out := api.Cluster{ID: c.ID, Default: c.Default, State: c.State, Since: resource.At(c.Since), Version: c.Version, Error: s.Secrets.Text("", c.Error), Unknown: c.Unknown}
		out.Kind, out.Server, out.Namespace, out.Namespaces = c.Kind, c.Server, c.Namespace, append([]string{}, c.Namespaces...)
		if item, there := s.stored.ByID(c.ID); there && c.Kind == kube.KindCreated {
			out.Created, out.By, out.Revision = item.Created, item.Value.By, item.Revision
		}
		list = append(list, out)
	}
	return list
}

// Delete implements api.Clusters.
func (s *clusters) Delete(ctx context.Context, id string, revision int64) error {
	if _, there := s.stored.ByID(id); !there {
		return stepwell.Errorf(stepwell.CodeConflict, "remove it from kubernetes.clusters", "the cluster %s is one of the settings", stepwell.Clip(id, 80))
	}
	waiting, err := s.waiting(ctx, id)
	if err != nil {
		return err
	}
	if waiting != "" {
		return stepwell.Errorf(stepwell.CodeConflict, "wait for its end, or cancel it", "the execution %s awaits a job in the cluster %s", waiting, id)
	}
	if _, err := s.stored.Delete(ctx, id, revision); err != nil {
		return err
	}
	s.kube.clusters.Remove(id)
	return nil
}

// waiting is an execution that awaits a job in a cluster; "": there is none.
func (s *clusters) waiting(ctx context.Context, id string) (string, error) {
	const page = 1000
	for after := (*store.WaitingStep)(nil); ; {
		rows, err := s.Store.WaitingSteps(ctx, kube.SignalPrefix, after, page)
		if err != nil {
			return "", err
		}
		for i := range rows {
			if _, place, _ := strings.Cut(rows[i].External, "/"); strings.HasPrefix(place, id+"/") {
				return rows[i].Execution, nil
			}
		}
		if len(rows) < page {
			return "", nil
		}
		after = &rows[len(rows)-1]
	}
}
