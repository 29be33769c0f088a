// Package helm has the actions that install, upgrade and uninstall releases of Helm charts: external.helm.install and
// external.helm.uninstall (specification: budpipeline §3.3).
//
// The helm program of the machine does the work on a cluster of the settings (package kube). Charts are fetched by this
// process under the rules of util.http (package outbound), so helm itself reaches nothing but the cluster. Which step a
// revision belongs to is in the release's labels, from its first moment: so an attempt after a crash finds what was done, and repairs only what
// is its own. Names, parameters and outputs are stable.
package helm

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
)

// The actions.
const (
	Install   = "external.helm.install"
	Uninstall = "external.helm.uninstall"
)

// Options configure the actions.
type Options struct {
	// Clusters are the clusters that there are. Required.
	Clusters *kube.Clusters
	// Pause is the wait between two looks at a release that somebody else is working on. Defaults to 5 s.
	Pause time.Duration
}

// Register adds the actions, which fetch charts as the client may. The caller closes the client.
func Register(r *action.Registry, c *outbound.Client, o Options) error {
	if o.Pause <= 0 {
		o.Pause = 5 * time.Second
	}
	h := &handler{o: o, client: c, busy: map[string]chan struct{}{}}
	if err := r.Add(action.Action{Spec: describeInstall(), Handler: installer{h}}); err != nil {
		return err
	}
	return r.Add(action.Action{Spec: describeUninstall(), Handler: uninstaller{h}})
}

// handler is what both actions share.
type handler struct {
	o      Options
	client *outbound.Client

	mu   sync.Mutex
	busy map[string]chan struct{} // by release: closed when it is free
}

// target are the parameters that name a release.
type target struct {
	Cluster   string `json:"cluster_id" maxLength:"63" doc:"The cluster, of the setting ´kubernetes.clusters´; the default one by default."`
	Release   string `json:"release" required:"true" minLength:"1" maxLength:"53" doc:"The release's name: lowercase letters, digits, - and dots."`
	Namespace string `json:"namespace" maxLength:"63" doc:"The release's namespace, of those that the cluster's settings allow; the cluster's default one by default."`
	Seconds   int    `json:"timeout_seconds" default:"600" minimum:"1" maximum:"86400" doc:"Limit for helm's work, and for the wait while another process works on the release."`
	TakeOver  bool   `json:"take_over" doc:"Whether to repair a release that another helm process left unfinished more than ´timeout_seconds´ ago. Without it the step fails then."`
}

// installParams are the parameters of external.helm.install.
type installParams struct {
	target
	Chart      string         `json:"chart" required:"true" minLength:"1" maxLength:"2000" doc:"A chart's name in ´repo´; an address that begins with oci:// or https:// (of an archive); or a folder or archive below the pipeline's directory."`
	Repo       string         `json:"repo" maxLength:"2000" doc:"The address of a chart repository, such as https://charts.example.org/stable."`
	Version    string         `json:"version" maxLength:"100" doc:"The chart's version, in full; the newest that is not a pre-release by default. With ´repo´ and oci:// only."`
	Credential *credential    `json:"credential" doc:"The credential for the repository or registry; none by default. It is sent to no other host."`
	Values     map[string]any `json:"values" doc:"Values for the chart."`
	Files      []string       `json:"values_files" maxItems:"50" minLength:"1" doc:"YAML files with values, below the pipeline's directory; later ones win, and ´values´ over all of them."`
	Secrets    map[string]any `json:"set_secrets" writeOnly:"true" doc:"Secret values, by their path: ´auth.password´. They win over all others. They reach helm on its standard input; the chart and the release's record in the cluster have them."`
	Wait       bool           `json:"wait" default:"true" doc:"Whether to wait until what was installed is ready."`
	Rollback   bool           `json:"rollback_on_failure" doc:"Whether a failed installation is uninstalled, and a failed upgrade rolled back. This waits, whatever ´wait´ is."`
	Create     bool           `json:"create_namespace" doc:"Whether to create the namespace when it does not exist."`
	DryRun     bool           `json:"dry_run" doc:"Whether to change nothing: the cluster checks what would be installed, and ´manifest´ has it, without secrets."`
}

type credential struct {
	Username string `json:"username" maxLength:"1000" doc:"Name that goes with the password."`
	Password string `json:"password" writeOnly:"true" required:"true" minLength:"1" doc:"Password or access token, best a secret."`
}

// uninstallParams are the parameters of external.helm.uninstall.
type uninstallParams struct {
	target
	KeepHistory   bool `json:"keep_history" doc:"Whether the release's record stays, as uninstalled."`
	IgnoreMissing bool `json:"ignore_missing" default:"true" doc:"Whether there may be no such release."`
	Wait          bool `json:"wait" default:"true" doc:"Whether to wait until everything is deleted."`
}

func describeInstall() spec.Spec {
	return spec.Spec{
		Name:    Install,
		Effect:  spec.OnceEffect,
		Places:  []string{"cluster_id+namespace+release"},
		Summary: "Installs or upgrades a release of a Helm chart.",
		Doc:     installDoc,
		Timeout: time.Hour,
		Params:  spec.FieldsOf[installParams](),
		Outputs: append(releaseFields(),
			spec.Field{Name: "chart", Type: spec.String, Doc: "The chart's name and version."},
			spec.Field{Name: "app_version", Type: spec.String, Doc: "The version of what the chart installs, as the chart says."},
			spec.Field{Name: "notes", Type: spec.String, Doc: "The chart's notes, at most 16 Ki characters."},
			spec.Field{Name: "changed", Type: spec.Boolean, Doc: "Whether this step made a revision: false when an earlier attempt had, and for `dry_run`."},
			spec.Field{Name: "manifest", Type: spec.String, Doc: "The rendered manifests, their first 256 KiB. With `dry_run`."}),
		Examples: []spec.Example{
			{Title: "a chart of a repository", YAML: "id: gateway\naction: external.helm.install\nparams:\n  release: gateway\n  repo: https://charts.example.org/stable\n  chart: gateway\n  version: 1.4.2\n" +
				"  values: {replicas: 3}\n  set_secrets: {auth.token: \"{{ secrets.gateway_token }}\"}\n  rollback_on_failure: true"},
			{Title: "a model's server, of an OCI registry, on another cluster", YAML: "id: deploy\naction: external.helm.install\nparams:\n  cluster_id: eu\n  namespace: models\n  release: \"model-{{ params.model }}\"\n" +
				"  chart: oci://registry.example.org/charts/model-server\n  version: 2.0.1\n  values_files: [values/common.yaml]\n  timeout_seconds: 1800"},
		},
	}
}

func describeUninstall() spec.Spec {
	return spec.Spec{
		Name:    Uninstall,
		Effect:  spec.OnceEffect,
		Places:  []string{"cluster_id+namespace+release"},
		Summary: "Uninstalls a release of a Helm chart.",
		Doc:     uninstallDoc,
		Timeout: time.Hour,
		Params:  spec.FieldsOf[uninstallParams](),
		Outputs: append(releaseFields(), spec.Field{Name: "removed", Type: spec.Boolean, Doc: "Whether there was a release to uninstall."}),
		Examples: []spec.Example{
			{Title: "remove what an evaluation needed", YAML: "id: clean_up\naction: external.helm.uninstall\nparams: {release: \"eval-{{ params.run }}\", cluster_id: eu}"},
		},
	}
}

func releaseFields() []spec.Field {
	return []spec.Field{
		{Name: "release", Type: spec.String, Doc: "The release's name."},
		{Name: "namespace", Type: spec.String, Doc: "Its namespace."},
		{Name: "cluster_id", Type: spec.String, Doc: "The cluster."},
		{Name: "revision", Type: spec.Integer, Doc: "The release's newest revision; 0 without one."},
		{Name: "status", Type: spec.String, Doc: "The revision's status, such as `deployed` or `uninstalled`."},
	}
}

const installDoc = "**Once.** Each revision carries labels that say which step made it, and of what: chart, version and values. An attempt after a crash, or a restart of the step, finds them and makes no " +
	"second revision. A newer revision by somebody else, or of other values, is upgraded. All attempts install the same archive: the first records its address and its SHA-256.\n\n" +
	"**Unfinished.** A helm that was killed leaves a release that refuses all further work. When its labels are this step's and its helm is gone, the release is repaired (a first installation is uninstalled, an upgrade rolled back) and " +
	"installed again. While another process works on the release the step waits, without holding a worker, and fails after `timeout_seconds`; `take_over` then repairs it. Steps of one server take turns at a release.\n\n" +
	"**What it may.** The chart is fetched by Stepwell as `util.http` fetches: same addresses, no secrets to other hosts, 32 MiB at most. Local charts and files of values lie below the pipeline's directory, and have no links. " +
	"Before anything is changed the chart is rendered against the cluster: objects outside the namespaces of the setting `kubernetes.clusters.ID.namespaces`, kinds that belong to no namespace (unless that has `\"*\"`) and images " +
	"that `kubernetes.images` does not list are refused. This guards against mistakes; the rights of the kubeconfig decide. Dependencies must be in the chart. Plugins and post-renderers are off.\n\n" +
	"**Stopped.** On a cancel, a timeout or a shutdown helm gets SIGTERM and 40 seconds, in which it marks the release `failed`; the next installation upgrades that.\n\n" +
	"**helm.** The program `helm` (4, or 3.15 and later) must be installed where the step runs.\n\n" +
	"| what happens | the step |\n|---|---|\n" +
	"| the cluster, the repository or the registry is not reached | another attempt by the retry policy |\n" +
	"| a hook fails; what was installed is not ready in time | another attempt by the retry policy, as a new revision |\n" +
	"| a chart, values, a namespace or rights that cannot work; an object that belongs to another release | fails permanently |\n" +
	"| another process works on the release for longer than `timeout_seconds` | fails permanently |"

const uninstallDoc = "It deletes the objects that the release made, but those with the annotation `helm.sh/resource-policy: keep`, and runs the chart's hooks. A second attempt deletes only the release that " +
	"the first one found. While another process works on the release the step waits, as `external.helm.install` does; there is more about helm, rights and failures."

// releaseName is helm's own rule.
var releaseName = action.Pattern(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func (t *target) check() error {
	if t.Release != "" && (!releaseName().MatchString(t.Release) || len(t.Release) > 53) {
		return action.Invalid("lowercase letters, digits, - and dots, at most 53", "release: %q is not a release's name", stepwell.Clip(t.Release, 80))
	}
	return nil
}

// limit is how long helm may work.
func (t *target) limit() time.Duration { return time.Duration(t.Seconds) * time.Second }

// turn waits a while for the release to be free in this process. Without a turn, done is nil.
func (h *handler) turn(ctx context.Context, release string) (done func()) {
	wait, cancel := context.WithTimeout(ctx, h.o.Pause)
	defer cancel()
	for {
		h.mu.Lock()
		other, taken := h.busy[release]
		if !taken {
			own := make(chan struct{})
			h.busy[release] = own
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				delete(h.busy, release)
				h.mu.Unlock()
				close(own)
			}
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-wait.Done():
			return nil
		}
	}
}
