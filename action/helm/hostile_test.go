package helm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/helm"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/outbound"
)

func everywhere(o *kube.Options) {
	a := o.Clusters["here"]
	a.Namespaces = []string{"*"}
	o.Clusters["here"] = a
}

// nowhere are the actions with a cluster that nobody reaches: what is refused before helm is asked.
func nowhere(t *testing.T) *rig {
	helmProgram(t)
	r := &rig{t: t, dir: t.TempDir(), namespace: "team"}
	r.config = filepath.Join(t.TempDir(), "kubeconfig")
	r.write(r.config, "{current-context: a, contexts: [{name: a, context: {cluster: a, namespace: team}}], clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}")
	r.actions = register(t, kube.Options{Clusters: map[string]kube.Access{"here": {Kubeconfig: r.config}}, Default: "here"}, outbound.Options{AllowHosts: []string{"127.0.0.1:9"}})
	return r
}

// TestParametersAreRefused before anything is run; those without templates when a pipeline is validated.
func TestParametersAreRefused(t *testing.T) {
	t.Parallel()
	r := nowhere(t)
	r.chart("greeting", chartFiles(nil))
	for _, c := range []struct {
		p    params
		code stepwell.Code
		text string
	}{
		{params{"release": "--kubeconfig=/etc/x", "chart": "greeting"}, stepwell.CodeInvalid, "is not a release's name"},
		{params{"release": "App", "chart": "greeting"}, stepwell.CodeInvalid, "is not a release's name"},
		{params{"release": "a,b=c", "chart": "greeting"}, stepwell.CodeInvalid, "is not a release's name"},
		{params{"release": "app", "chart": "../greeting"}, stepwell.CodeInvalid, "leads out of the pipeline's directory"},
		{params{"release": "app", "chart": "/etc"}, stepwell.CodeInvalid, "leads out of the pipeline's directory"},
		{params{"release": "app", "chart": "file:///etc/passwd"}, stepwell.CodeInvalid, "is not an address"},
		{params{"release": "app", "chart": "https://u:p@example.org/x.tgz"}, stepwell.CodeInvalid, "credentials do not belong into the address"},
		{params{"release": "app", "chart": "oci://example.org/../x"}, stepwell.CodeInvalid, "is not the name of a repository"},
		{params{"release": "app", "chart": "oci://example.org/x:1.2.3"}, stepwell.CodeInvalid, "is not the name of a repository"},
		{params{"release": "app", "chart": "../x", "repo": "https://example.org"}, stepwell.CodeInvalid, "is not the name of a chart"},
		{params{"release": "app", "chart": "x", "repo": "git://example.org"}, stepwell.CodeInvalid, "repo: it is not an address"},
		{params{"release": "app", "chart": "oci://example.org/x", "version": "../../1"}, stepwell.CodeInvalid, "is not a version"},
		{params{"release": "app", "chart": "oci://example.org/x", "version": ">1.0"}, stepwell.CodeInvalid, "is not a version"},
		{params{"release": "app", "chart": "greeting", "version": "1.2.3"}, stepwell.CodeInvalid, "has but one version"},
		{params{"release": "app", "chart": "missing"}, stepwell.CodeInvalid, "missing"},
		{params{"release": "app", "chart": "greeting", "values_files": []any{"../x.yaml"}}, stepwell.CodeInvalid, "leads out of the pipeline's directory"},
		{params{"release": "app", "chart": "greeting", "values_files": []any{"https://example.org/x.yaml"}}, stepwell.CodeInvalid, "values_files"},
		{params{"release": "app", "chart": "greeting", "set_secrets": params{"a..b": "x"}}, stepwell.CodeInvalid, "is not the path of a value"},
		{params{"release": "app", "chart": "greeting", "values": params{"a": 1}, "set_secrets": params{"a.b": "x"}}, stepwell.CodeInvalid, "a is not an object"},
		{params{"release": "app", "chart": "greeting", "namespace": "kube-system"}, stepwell.CodeDenied, "may not use the namespace kube-system"},
		{params{"release": "app", "chart": "greeting", "namespace": "--all"}, stepwell.CodeInvalid, "is not the name of one"},
		{params{"release": "app", "chart": "greeting", "cluster_id": "moon"}, stepwell.CodeInvalid, `there is no cluster "moon"`},
		{params{"release": "app", "chart": "http://169.254.169.254/x.tgz"}, stepwell.CodeInvalid, "169.254.169.254"},
		{params{"release": "app", "chart": "oci://127.0.0.1:1/x", "version": "1.0.0"}, stepwell.CodeInvalid, "loopback"},
	} {
		t.Run(fmt.Sprint(c.p), func(t *testing.T) {
			fails(t, r.install("x", c.p).run(), c.code, true, c.text)
		})
	}
	fails(t, r.step(helm.Uninstall, "x", params{"release": "-a"}).run(), stepwell.CodeInvalid, true, "is not a release's name")
	fails(t, r.install("x", params{"release": "app", "chart": "greeting"}).run(), stepwell.CodeUnavailable, false, "connection refused")
}

// TestLinksLeadNowhere: neither a chart nor a file of values may be, or have, a link out of the pipeline's directory; a link in
// a chart is not followed at all.
func TestLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	r := nowhere(t)
	secret := filepath.Join(t.TempDir(), "secret")
	r.write(secret, "top: secret")
	r.chart("greeting", chartFiles(nil))
	for _, link := range []struct{ from, to string }{{"greeting/files/stolen", secret}, {"out.yaml", secret}, {"outside", filepath.Dir(secret)}, {"greeting/templates/inner", "../values.yaml"}} {
		path := filepath.Join(r.dir, link.from)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link.to, path); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, r.install("x", params{"release": "app", "chart": "greeting"}).run(), stepwell.CodeDenied, true, "is not a file")
	fails(t, r.install("x", params{"release": "app", "chart": "outside/x"}).run(), stepwell.CodeInvalid, true, "escapes")
	fails(t, r.install("x", params{"release": "app", "chart": "out.yaml"}).run(), stepwell.CodeInvalid, true, "escapes")
	r.chart("plain", chartFiles(nil))
	fails(t, r.install("x", params{"release": "app", "chart": "plain", "values_files": []any{"out.yaml"}}).run(), stepwell.CodeInvalid, true, "escapes")
	r.write("big.yaml", "text: "+strings.Repeat("x", 5<<20))
	fails(t, r.install("x", params{"release": "app", "chart": "plain", "values_files": []any{"big.yaml"}}).run(), stepwell.CodeLimit, true, "too large")
}

// TestWhatAChartMayMake: nothing in another namespace, nothing that belongs to none, no image that is not allowed; also not by a
// hook or in a list.
func TestWhatAChartMayMake(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *kube.Options) { o.Images = []string{"registry.example/*"} })
	const hook = "annotations: {helm.sh/hook: pre-install}, "
	for name, c := range map[string]struct{ object, text string }{
		"another namespace":    {"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: kube-system}}", "ConfigMap x: steps may not use the namespace kube-system"},
		"in a list":            {"{apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}}]}", "the namespace default"},
		"of a hook":            {"{apiVersion: v1, kind: ConfigMap, metadata: {" + hook + "name: x, namespace: default}}", "the namespace default"},
		"rights everywhere":    {"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: x}, rules: []}", "the chart has a ClusterRole x"},
		"an image":             {"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: a, image: evil.example/x}]}}", "the image evil.example/x may not be used"},
		"an image of a set-up": {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {initContainers: [{name: i, image: evil.example/x}], containers: [{name: a, image: registry.example/x}]}}}}", "the image evil.example/x"},
	} {
		chart := r.chart(strings.ReplaceAll(name, " ", "-"), chartFiles(files{"templates/x.yaml": c.object}))
		fails(t, r.install("x", params{"release": "app", "chart": chart}).run(), stepwell.CodeDenied, true, c.text)
		r.wantRevisions("app")
	}
	chart := r.chart("good", chartFiles(files{"templates/x.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: {{ .Release.Namespace }}}, spec: {containers: [{name: a, image: registry.example/x}]}}",
		"crds/x.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.example.org}\nspec: {group: example.org, scope: Namespaced, names: {plural: xs, kind: X}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"}))
	has(t, succeeds(t, r.install("x", params{"release": "app", "chart": chart, "wait": false}).run()), params{"revision": 1})
	if all := r.cluster.Items(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"); len(all) > 0 {
		t.Error("the chart has made a definition for all namespaces")
	}
}

// TestBrokenCharts fail for good, with helm's reason and without a revision.
func TestBrokenCharts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct {
		files files
		text  string
	}{
		"template":     {files{"templates/x.yaml": "{{ .Values.a.b.c }}"}, "nil pointer"},
		"syntax":       {files{"templates/x.yaml": "{{ if }}"}, "missing value for if"},
		"yaml":         {files{"templates/x.yaml": "a: [b"}, "YAML"},
		"kind":         {files{"templates/x.yaml": "apiVersion: example.org/v1\nkind: Missing\nmetadata: {name: x}"}, "no matches for kind"},
		"schema":       {files{"values.schema.json": `{"properties": {"text": {"type": "integer"}}}`}, "schema"},
		"dependencies": {files{"Chart.yaml": "apiVersion: v2\nname: greeting\nversion: 1.2.3\ndependencies: [{name: other, version: 1.0.0, repository: 'http://127.0.0.1:1'}]\n"}, "missing in charts/"},
		"no chart":     {files{"Chart.yaml": ""}, ""},
		"environment":  {files{"templates/x.yaml": `{{ env "HOME" }}`}, `function "env" not defined`},
		"kubeVersion":  {files{"Chart.yaml": "apiVersion: v2\nname: greeting\nversion: 1.2.3\nkubeVersion: '>=9.0.0'\n"}, "kubeVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			fails(t, r.install("x", params{"release": "app", "chart": r.chart("broken-"+strings.ReplaceAll(name, " ", "-"), chartFiles(c.files))}).run(), stepwell.CodeInvalid, true, c.text)
		})
	}
	r.write("not-a-chart.tgz", "nothing")
	fails(t, r.install("x", params{"release": "app", "chart": "not-a-chart.tgz"}).run(), stepwell.CodeInvalid, true, "")
	r.wantRevisions("app")
	// A template that prints a secret of the step on purpose gets it redacted.
	tell := r.install("x", params{"release": "app", "chart": r.chart("tell", chartFiles(files{"templates/x.yaml": `{{ fail .Values.password }}`})), "set_secrets": params{"password": "correct-horse"}})
	got := tell.run()
	fails(t, got, stepwell.CodeInvalid, true, "[redacted]")
	if logs, _ := json.Marshal(got.Logs); strings.Contains(got.Err.Error()+string(logs), "correct") {
		t.Errorf("the secret is shown: %v %s", got.Err, logs)
	}
}

// TestForeignObjects: what belongs to another release stays as it is.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chart("greeting", chartFiles(files{"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {text: {{ .Release.Name }}}\n"}))
	succeeds(t, r.install("x", params{"release": "app", "chart": "greeting"}).run())
	fails(t, r.install("y", params{"release": "other", "chart": "greeting"}).run(), stepwell.CodeConflict, true, "")
	if r.text("shared") != "app" {
		t.Error("the object was taken over")
	}
}
