package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
)

// NewCluster is a cluster to be created.
type NewCluster struct {
	ID         string   `json:"id" minLength:"1" maxLength:"63" pattern:"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$" doc:"What steps name as cluster_id."`
	Kubeconfig string   `json:"kubeconfig" minLength:"1" maxLength:"262144" writeOnly:"true" doc:"Its text, without files, programs (exec) and proxy-url: kubectl config view --flatten --minify. It is never shown."`
	Context    string   `json:"context,omitempty" maxLength:"253" doc:"Of the kubeconfig. Defaults to its current one."`
	Namespace  string   `json:"namespace,omitempty" maxLength:"63" doc:"Of steps that name none. Defaults to that of the context, else bud-jobs."`
	Namespaces []string `json:"namespaces,omitempty" maxItems:"100" nullable:"false" doc:"Patterns of further namespaces that steps may name."`
}

// Cluster is a Kubernetes cluster on which steps work.
type Cluster struct {
	ID         string   `json:"id"`
	Default    bool     `json:"default" doc:"Steps that name none work on it."`
	Kind       string   `json:"kind" enum:"kubeconfig,secret,in_cluster,service,created" doc:"How it is reached. created: it was created over the API; the others are those of the settings."`
	Server     string   `json:"server" doc:"Its address, or the name of the service; empty while it is not known."`
	Namespace  string   `json:"namespace" doc:"Of steps that name none."`
	Namespaces []string `json:"namespaces" nullable:"false" doc:"Patterns of further namespaces that steps may name."`
	State      string   `json:"state" enum:"unknown,ok,failing"`
	Since      Time     `json:"since" doc:"Since when it has been in the state."`
	Version    string   `json:"version" doc:"Of the cluster."`
	Error      string   `json:"error,omitempty" doc:"Why it fails."`
	Unknown    int      `json:"unknown_jobs" doc:"Jobs of this installation that belong to executions which the database does not know."`
	Created    Time     `json:"created_at,omitzero" doc:"Of a created one."`
	By         string   `json:"created_by,omitempty" doc:"Who has created it."`
	Revision   int64    `json:"-"`
}

// Identity is the id.
func (c *Cluster) Identity() string { return c.ID }

// ETag is the revision; 0 for clusters of the settings.
func (c *Cluster) ETag() int64 { return c.Revision }

// ClusterList lists clusters.
type ClusterList = Page[Cluster]

// ClusterMade is a cluster that has been created.
type ClusterMade struct{ Cluster }

// Shown is the cluster.
func (m *ClusterMade) Shown() *Cluster { return &m.Cluster }

// Clusters are the Kubernetes clusters that steps work on.
type Clusters interface {
	Create(ctx context.Context, n *NewCluster, actor string) (*ClusterMade, error)
	Get(ctx context.Context, id string) (*Cluster, error)
	List(ctx context.Context, _ *All) ([]Cluster, error)
	// Delete removes a created one. CodeConflict: it is one of the settings, or steps await jobs in it.
	Delete(ctx context.Context, id string, revision int64) error
}

// clusterObjects are clusters as objects of a kind.
type clusterObjects struct {
	fixed[Cluster]
	Clusters
}

func clustersOf(c Clusters) Kind {
	k := &kindOf[NewCluster, struct{}, ClusterMade, Cluster, All]{Resource: clusterObjects{Clusters: c}}
	longest := 63
	k.id = &huma.Schema{Type: "string", MaxLength: &longest, Pattern: "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"}
	return k
}

// Kind names the kind.
func (clusterObjects) Kind() resource.Kind {
	return resource.Kind{Name: "cluster", Noun: "cluster", Path: "clusters", Param: "cluster_id", List: "clusters"}
}

// Create makes one.
func (c clusterObjects) Create(ctx context.Context, n *NewCluster, actor string) (*ClusterMade, error) {
	return c.Clusters.Create(ctx, n, actor)
}

// noClusters are those of a server that has none.
type noClusters struct{}

var errNoClusters = stepwell.Errorf(stepwell.CodeNotFound, "", "there are no clusters here")

func (noClusters) Create(context.Context, *NewCluster, string) (*ClusterMade, error) {
	return nil, errNoClusters
}
func (noClusters) Get(context.Context, string) (*Cluster, error) { return nil, errNoClusters }
func (noClusters) List(context.Context, *All) ([]Cluster, error) { return nil, nil }
func (noClusters) Delete(context.Context, string, int64) error   { return errNoClusters }
