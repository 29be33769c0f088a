package kube

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube/kubetest"
)

var pem64 = base64.StdEncoding.EncodeToString([]byte("PEM"))

const twoContexts = `apiVersion: v1
kind: Config
current-context: eu
contexts:
- {name: eu, context: {cluster: one, user: ann, namespace: jobs}}
- {name: us, context: {cluster: two, user: bob}}
clusters:
- name: one
  cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: PEM64, tls-server-name: api.eu, proxy-url: "http://user:pw@proxy:3128"}
- name: two
  cluster: {server: "https://us.example/k8s", insecure-skip-tls-verify: true}
users:
- {name: ann, user: {client-certificate-data: PEM64, client-key-data: PEM64}}
- {name: bob, user: {token: secret-token}}
`

func fixture(text string) []byte { return []byte(strings.ReplaceAll(text, "PEM64", pem64)) }

func TestKubeconfigOfAContext(t *testing.T) {
	eu, err := parseKubeconfig(fixture(twoContexts), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if eu.Server.String() != "https://10.0.0.1:6443" || string(eu.CA) != "PEM" || string(eu.Cert) != "PEM" || string(eu.Key) != "PEM" || eu.ServerName != "api.eu" || eu.Namespace != "jobs" || eu.Proxy.Host != "proxy:3128" {
		t.Errorf("the current context is read as %+v", eu)
	}
	us, err := parseKubeconfig(fixture(twoContexts), "us", "")
	if err != nil || us.Token != "secret-token" || !us.Insecure || us.Server.Path != "/k8s" || us.Cert != nil {
		t.Errorf("a named context is read as %+v, %v", us, err)
	}
	if diff := cmp.Diff([]string{"secret-token"}, us.secrets()); diff != "" {
		t.Error(diff)
	}
	again, err := parseKubeconfig(eu.encode(), "", "")
	if err != nil || string(again.encode()) != string(eu.encode()) || strings.Contains(string(eu.encode()), "bob") {
		t.Errorf("what is written for other programs: %s, %v", eu.encode(), err)
	}
}

// TestKubeconfigFromASecret: whoever may write a secret may neither run programs nor read files of the server by it.
func TestKubeconfigFromASecret(t *testing.T) {
	for what, user := range map[string]string{
		"program":     `exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, id]}`,
		"token file":  `tokenFile: /etc/passwd`,
		"certificate": `client-certificate: /etc/passwd`,
		"key":         `client-key: /etc/passwd`,
	} {
		text := `{contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://h"}}], users: [{name: u, user: {` + user + `}}]}`
		if _, err := parseKubeconfig([]byte(text), "", ""); stepwell.CodeOf(err) != stepwell.CodeDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	text := `{contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://h", certificate-authority: /etc/passwd}}]}`
	if _, err := parseKubeconfig([]byte(text), "", ""); stepwell.CodeOf(err) != stepwell.CodeDenied {
		t.Errorf("authority: %v", err)
	}
}

func TestKubeconfigIsRefused(t *testing.T) {
	with := func(cluster, user string) string {
		return `{contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {` + cluster + `}}], users: [{name: u, user: {` + user + `}}]}`
	}
	for _, c := range []struct{ text, want string }{
		{"a: [", "cannot be read"},
		{"- 1", "cannot be read"},
		{"{}", `no context ""`},
		{`{contexts: [{name: x, context: {cluster: c}}]}`, `no cluster "c"`},
		{`{contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://h"}}]}`, `no user "u"`},
		{"a: &x 1\nb: *x", "aliases"},
		{with(`server: "ftp://h"`, ``), "http(s)"},
		{with(`server: "https://u:p@h"`, ``), "http(s)"},
		{with(`server: "https://h", proxy-url: "file:///x"`, ``), "proxy-url"},
		{with(`server: "https://h", certificate-authority-data: "%"`, ``), "base64"},
		{with(`server: "https://h", insecure-skip-tls-verify: true, certificate-authority-data: PEM64`, ``), "insecure"},
		{with(`server: "https://h"`, `username: u, password: geheim`), "password"},
		{with(`server: "https://h"`, `auth-provider: {name: gcp}`), "auth-provider"},
		{with(`server: "https://h"`, `as: admin`), "impersonation"},
		{with(`server: "https://h"`, `client-certificate-data: PEM64`), "without its key"},
		{with(`server: "https://h"`, `token: "a\nb"`), "more than one line"},
		{with(`server: "https://h"`, `exec: {apiVersion: v2, command: x}`), "apiVersion"},
		{with(`server: "https://h"`, `exec: {apiVersion: client.authentication.k8s.io/v1}`), "no command"},
		{with(`server: "https://h"`, `exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}`), "terminal"},
		{strings.Repeat("#", maxKubeconfig+1), "larger than 1024 KiB"},
	} {
		_, err := parseKubeconfig(fixture(c.text), "", t.TempDir())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%.60s: %v, not %q", c.text, err, c.want)
		}
	}
}

// TestClustersOfTheSettings: a file is read again after a minute, relative names in it are meant from its folder, credentials become known.
func TestClustersOfTheSettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), fixture(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ca.pem", "AUTHORITY")
	file := `{contexts: [{name: x, context: {cluster: c, user: u, namespace: ns}}], clusters: [{name: c, cluster: {server: "https://h", certificate-authority: ca.pem}}],
		users: [{name: u, user: {token: TOKEN}}]}`
	write("config", strings.ReplaceAll(file, "TOKEN", "first"))
	var hidden []string
	now := time.Now()
	c, err := NewClusters(Options{Default: "eu", Images: []string{"registry.example/*", "busybox"}, Hide: func(v ...string) { hidden = append(hidden, v...) }, Now: func() time.Time { return now },
		Secret: func(_ context.Context, name string) (string, error) { return string(fixture(twoContexts)), nil },
		Clusters: map[string]Access{
			"eu": {Kubeconfig: filepath.Join(dir, "config"), Namespaces: []string{"team-*"}}, "us": {Secret: "kc", Context: "us"}}})
	if err != nil {
		t.Fatal(err)
	}
	eu, err := c.Find("")
	if err != nil || eu.ID() != "eu" {
		t.Fatalf("the default is %v, %v", eu, err)
	}
	text, err := eu.Kubeconfig(t.Context())
	if err != nil || !strings.Contains(string(text), base64.StdEncoding.EncodeToString([]byte("AUTHORITY"))) || !strings.Contains(string(text), "first") {
		t.Errorf("%s, %v", text, err)
	}
	for asked, want := range map[string]string{"": "ns", "ns": "ns", "team-a": "team-a"} {
		if got, err := eu.Namespace(t.Context(), asked); got != want {
			t.Errorf("namespace %q is %q, %v", asked, got, err)
		}
	}
	for asked, code := range map[string]stepwell.Code{"kube-system": stepwell.CodeDenied, "A/b": stepwell.CodeInvalid} {
		if _, err := eu.Namespace(t.Context(), asked); stepwell.CodeOf(err) != code {
			t.Errorf("namespace %q: %v", asked, err)
		}
	}
	write("config", strings.ReplaceAll(file, "TOKEN", "second"))
	if text, _ := eu.Kubeconfig(t.Context()); !strings.Contains(string(text), "first") {
		t.Error("the file is read for each call")
	}
	now = now.Add(time.Minute)
	if text, err := eu.Kubeconfig(t.Context()); !strings.Contains(string(text), "second") {
		t.Errorf("the file is not read again: %v", err)
	}
	us, err := c.Find("us")
	if err == nil {
		_, err = us.Kubeconfig(t.Context())
	}
	if got, _ := us.Namespace(t.Context(), ""); err != nil || got != DefaultNamespace {
		t.Errorf("namespace %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{"first", "second", "secret-token"}, hidden); diff != "" {
		t.Errorf("known credentials: %s", diff)
	}
	if _, err := c.Find("mars"); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(stepwell.HintOf(err), "eu, us") {
		t.Errorf("%v, %s", err, stepwell.HintOf(err))
	}
	for image, ok := range map[string]bool{"registry.example/a:1": true, "busybox": true, "busybox:1": false, "evil.example/registry.example/a": false} {
		if err := c.AllowImage(image); (err == nil) != ok {
			t.Errorf("image %s: %v", image, err)
		}
	}
}

// TestInCluster reaches the control plane as a pod does: by the variables and files that Kubernetes gives it. The token is read again each minute.
func TestInCluster(t *testing.T) {
	there := kubetest.Start(t)
	dir, namespace := t.TempDir(), there.Namespace(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, err := url.Parse(there.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inCluster(dir); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("outside a pod: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", address.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", address.Port())
	if _, err := inCluster(dir); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("without the files: %v", err)
	}
	may := kubetest.Object{"apiGroups": []any{"batch"}, "resources": []any{"jobs"}, "verbs": []any{"list"}}
	write("ca.crt", string(there.CA))
	write("namespace", namespace+"\n")
	write("token", "expired")
	cfg, err := inCluster(dir)
	if err != nil || cfg.Namespace != namespace {
		t.Fatalf("%+v, %v", cfg, err)
	}
	now := time.Now()
	k, err := newClient(cfg, func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	list := func() int {
		_, _, err := listAll[job](t.Context(), k, jobPath(namespace, ""), "")
		return statusOf(err)
	}
	if status := list(); status != http.StatusUnauthorized {
		t.Errorf("with an expired token: %d", status)
	}
	write("token", there.Account(t, namespace, may))
	if status := list(); status != 0 { // it is read again when it is refused
		t.Errorf("with the next token: %d", status)
	}
	write("token", there.Account(t, namespace))
	if status := list(); status != 0 {
		t.Errorf("within the minute: %d", status)
	}
	now = now.Add(time.Minute)
	if status := list(); status != http.StatusForbidden {
		t.Errorf("a minute later: %d", status)
	}
}

func TestClustersAreRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"kubernetes.default: there is no cluster": {Default: "x"},
		"not an id of a cluster":                  {Clusters: map[string]Access{"a/b": {InCluster: true}}},
		"clusters.x: give one of":                 {Clusters: map[string]Access{"x": {}}},
		"clusters.y: give one of":                 {Clusters: map[string]Access{"y": {InCluster: true, Secret: "s"}}},
		"context is for":                          {Clusters: map[string]Access{"x": {InCluster: true, Context: "s"}}},
		"not the name of one":                     {Clusters: map[string]Access{"x": {InCluster: true, Namespace: "A"}}},
		"not a pattern of namespaces":             {Clusters: map[string]Access{"x": {InCluster: true, Namespaces: []string{"[a"}}}},
		"an empty pattern":                        {Images: []string{""}},
	} {
		if _, err := NewClusters(o); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// FuzzKubeconfig: no text panics, names a file or a program where it may not, or is written in a form that reads differently.
func FuzzKubeconfig(f *testing.F) {
	f.Add(fixture(twoContexts), "us")
	f.Add([]byte(`{contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://h"}}], users: [{name: u, user: {exec: {command: sh}}}]}`), "")
	f.Add([]byte("a: &a [*a]"), "x")
	f.Fuzz(func(t *testing.T, text []byte, context string) {
		cfg, err := parseKubeconfig(text, context, "")
		if err != nil {
			if code := stepwell.CodeOf(err); code != stepwell.CodeInvalid && code != stepwell.CodeDenied && code != stepwell.CodeLimit {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		if cfg.Exec != nil || cfg.TokenFile != "" || cfg.Server == nil || cfg.Server.Host == "" {
			t.Fatalf("%+v", cfg)
		}
		again, err := parseKubeconfig(cfg.encode(), "", "")
		if err != nil || string(again.encode()) != string(cfg.encode()) {
			t.Fatalf("written as %s: %v", cfg.encode(), err)
		}
	})
}
