package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
)

// Options say which clusters there are.
type Options struct {
	// Default is the id of the cluster of steps that name none. Defaults to the only one, if there is one.
	Default string `json:"default"`
	// Clusters are the clusters by id. Defaults to none.
	Clusters map[string]Access `json:"clusters"`
	// Images are patterns of the images that jobs may run: "registry.example/*". A star stands for any text. Defaults to all images.
	Images []string `json:"images"`
	// Namespaces are patterns of the namespaces that steps may use in clusters that were created over the API. Defaults to those that the
	// cluster names.
	Namespaces []string `json:"namespaces"`
	// Online has Validate ask the clusters what they would say to a step's job (dry run). Defaults to false.
	Online bool `json:"-"`
	// Outbound connects to clusters that were created over the API, under the limits of steps. Nil: without limits.
	Outbound *outbound.Client `json:"-"`
	// Services calls the services that clusters are behind. Nil: they cannot be called here.
	Services *service.Client `json:"-"`
	// Secret returns a value of the vault. Nil: there is no vault here.
	Secret func(ctx context.Context, name string) (string, error) `json:"-"`
	// Hide makes credentials known that must never be shown. Defaults to nothing.
	Hide func(values ...string) `json:"-"`
	// Instance is the id of the store, the label of everything that is created for its executions.
	Instance func() string `json:"-"`
	// Now is the time. Defaults to time.Now.
	Now func() time.Time `json:"-"`
}

// Access is how a cluster is reached, by exactly one of Kubeconfig, Secret, InCluster and Service, and where in it steps may work.
type Access struct {
	Kubeconfig string   `json:"kubeconfig"` // a file; ~ is the home directory
	Context    string   `json:"context"`    // of the kubeconfig. Defaults to its current one
	Secret     string   `json:"secret"`     // the secret whose value is a kubeconfig
	InCluster  bool     `json:"in_cluster"` // the cluster in which this process runs, with the rights of its service account
	Service    string   `json:"service"`    // the service that runs jobs on the cluster (budpipeline §6.2)
	ServiceID  string   `json:"service_id"` // of the cluster at that service. Defaults to its id here
	Namespace  string   `json:"namespace"`  // of steps that name none. Defaults to the context's, else DefaultNamespace
	Namespaces []string `json:"namespaces"` // patterns of the namespaces that steps may name. Defaults to Namespace alone
}

// DefaultNamespace is the namespace of steps where neither they, nor the settings, nor the kubeconfig name one (budpipeline §6.2).
const DefaultNamespace = "bud-jobs"

// Clusters are the clusters of the settings, and those that users have created (Put). It is safe for concurrent use.
type Clusters struct {
	o Options

	mu   sync.RWMutex
	byID map[string]*Cluster
}

// Cluster is one of them.
type Cluster struct {
	id       string
	access   Access
	clusters *Clusters
	created  *Created // nil: it is one of the settings

	mu     sync.Mutex
	client *client
	config *config // the kubeconfig that client was made of
	read   time.Time
	health health
}

var (
	clusterID = action.Pattern(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	dnsLabel  = action.Pattern(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// NewClusters checks the options: every problem with them is CodeInvalid and names the setting. It reads no file.
func NewClusters(o Options) (*Clusters, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hide == nil {
		o.Hide = func(...string) {}
	}
	if o.Instance == nil {
		o.Instance = func() string { return "" }
	}
	c := &Clusters{o: o, byID: map[string]*Cluster{}}
	for _, id := range slices.Sorted(maps.Keys(o.Clusters)) {
		a := o.Clusters[id]
		if !clusterID().MatchString(id) {
			return nil, stepwell.Invalid("letters, digits, - _ and .", "kubernetes.clusters: %q is not an id of a cluster", stepwell.Clip(id, 80))
		}
		if err := a.validate(); err != nil {
			return nil, fmt.Errorf("kubernetes.clusters.%s: %w", id, err)
		}
		c.byID[id] = &Cluster{id: id, access: a, clusters: c}
	}
	if o.Default != "" && c.byID[o.Default] == nil {
		return nil, stepwell.Invalid("it is one of kubernetes.clusters", "kubernetes.default: there is no cluster %q", stepwell.Clip(o.Default, 80))
	}
	for _, pattern := range slices.Concat(o.Images) {
		if strings.TrimSpace(pattern) == "" {
			return nil, stepwell.Invalid("", "kubernetes.images: an empty pattern")
		}
	}
	if err := (&Access{Namespaces: o.Namespaces}).validateNamespaces(); err != nil {
		return nil, fmt.Errorf("kubernetes.%w", err)
	}
	return c, nil
}

func (a *Access) validate() error {
	ways := 0
	for _, given := range []bool{a.Kubeconfig != "", a.Secret != "", a.InCluster, a.Service != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return stepwell.Invalid("", "give one of kubeconfig, secret, in_cluster and service")
	case a.ServiceID != "" && a.Service == "":
		return stepwell.Invalid("", "service_id is for a service")
	case a.Context != "" && a.Kubeconfig == "" && a.Secret == "":
		return stepwell.Invalid("", "context is for a kubeconfig")
	}
	return a.validateNamespaces()
}

func (a *Access) validateNamespaces() error {
	if a.Namespace != "" && !dnsLabel().MatchString(a.Namespace) {
		return stepwell.Invalid("", "namespace %q is not the name of one", stepwell.Clip(a.Namespace, 80))
	}
	for _, pattern := range a.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil || !dnsLabel().MatchString(strings.ReplaceAll(pattern, "*", "x")) {
			return stepwell.Invalid(`write it like "team-*"`, "namespaces: %q is not a pattern of namespaces", stepwell.Clip(pattern, 80))
		}
	}
	return nil
}

// Find returns a cluster; "" is the default one: that of the settings, else the only one of the settings, else the only one. CodeInvalid:
// there is none.
func (c *Clusters) Find(id string) (*Cluster, error) {
	given, all := id, c.all()
	if id == "" {
		id = c.o.Default
	}
	if id == "" && len(c.o.Clusters) == 1 {
		id = slices.Collect(maps.Keys(c.o.Clusters))[0]
	}
	if id == "" && len(all) == 1 {
		id = slices.Collect(maps.Keys(all))[0]
	}
	if found := all[id]; found != nil {
		return found, nil
	}
	switch {
	case len(all) == 0:
		return nil, stepwell.Invalid("list them in the settings, kubernetes.clusters, or create one: stepwell clusters create", "no Kubernetes cluster is configured")
	case given == "":
		return nil, stepwell.Invalid("name one with cluster_id, or set kubernetes.default", "no cluster is named")
	}
	return nil, stepwell.Invalid("the clusters are "+strings.Join(c.IDs(), ", "), "there is no cluster %q", stepwell.Clip(given, 80))
}

// IDs are the ids of all clusters, sorted.
func (c *Clusters) IDs() []string { return slices.Sorted(maps.Keys(c.all())) }

// ID is the cluster's id.
func (c *Cluster) ID() string { return c.id }

// Kubeconfig returns a kubeconfig with this cluster, its user and its context alone, in YAML, for programs that need one. Certificates are
// in it, other files are named by their absolute paths. One that comes from a secret names no program and no file (CodeDenied). It holds
// credentials.
func (c *Cluster) Kubeconfig(ctx context.Context) ([]byte, error) {
	cfg, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.guarded {
		if err := c.clusters.permitted(ctx, cfg.Server); err != nil {
			return nil, atCluster(c.id, err)
		}
	}
	return cfg.encode(), nil
}

// Namespace returns the namespace that a step works in: the one that it asks for, if it may use that (CodeDenied), or the cluster's default
// one for "".
func (c *Cluster) Namespace(ctx context.Context, asked string) (string, error) {
	own, err := c.defaultNamespace(ctx)
	if err != nil {
		return "", err
	}
	if place := cmp.Or(asked, own); !c.allowed(place) {
		return "", stepwell.Errorf(stepwell.CodeDenied, "the setting kubernetes.namespaces lists those that are allowed", "steps may not use the namespace %s of the created cluster %s", stepwell.Clip(place, 80), c.id)
	}
	if asked == "" || asked == own {
		return own, nil
	}
	if !dnsLabel().MatchString(asked) {
		return "", stepwell.Invalid("lowercase letters, digits and -", "namespace: %q is not the name of one", stepwell.Clip(asked, 80))
	}
	if matchesAny(c.access.Namespaces, asked) {
		return asked, nil
	}
	return "", stepwell.Errorf(stepwell.CodeDenied, fmt.Sprintf("kubernetes.clusters.%s.namespaces lists those that steps may use", c.id), "steps may not use the namespace %s of the cluster %s", asked, c.id)
}

// Everywhere reports whether steps may work in every namespace, and so with what belongs to none.
func (c *Cluster) Everywhere() bool {
	return slices.Contains(c.access.Namespaces, "*") && c.allowed("*")
}

func (c *Cluster) defaultNamespace(ctx context.Context) (string, error) {
	if c.access.Namespace != "" || c.access.Service != "" {
		return cmp.Or(c.access.Namespace, DefaultNamespace), nil
	}
	cfg, err := c.load(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(cfg.Namespace, DefaultNamespace), nil
}

// AllowImage is CodeDenied when jobs may not run an image.
func (c *Clusters) AllowImage(image string) error {
	if len(c.o.Images) == 0 || slices.ContainsFunc(c.o.Images, func(pattern string) bool { return matches(pattern, image) }) {
		return nil
	}
	return stepwell.Errorf(stepwell.CodeDenied, "the setting kubernetes.images lists those that are allowed", "the image %s may not be used", stepwell.Clip(image, 200))
}

// matches compares a text with a pattern in which a star stands for any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, last)
}
