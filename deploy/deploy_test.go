// Package deploy tests what people deploy Stepwell with: its container images, the compose file, the Helm chart and the units
// of systemd. The programs that build and check them are modules of their own, in image and check.
package deploy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

var update = flag.Bool("update", false, "render the plain manifests anew")

// check runs deploy/check; its error is what it said.
func check(t *testing.T, args ...string) (out, said string, ok bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds Helm's library")
	}
	var failed bytes.Buffer
	cmd := exec.CommandContext(t.Context(), tooltest.Path(t, tooltest.Check), args...)
	cmd.Stderr = &failed
	answer, err := cmd.Output()
	return string(answer), failed.String(), err == nil
}

// service is what the tests look at in the compose file.
type service struct {
	Image       string
	Command     []string
	Environment map[string]string
	ReadOnly    bool                                  `json:"read_only"`
	DependsOn   map[string]struct{ Condition string } `json:"depends_on"`
	Healthcheck struct {
		Test    []string
		Disable bool
	}
	Ports []struct {
		HostIP string `json:"host_ip"`
	}
}

// TestCompose: Compose takes the file; what holds data is healthy before others start, nothing is published beyond this
// machine, and no secret stands in it.
func TestCompose(t *testing.T) {
	out, said, ok := check(t, "compose", "compose/compose.yaml")
	if !ok {
		t.Fatal(said)
	}
	var project struct{ Services map[string]service }
	if err := json.Unmarshal([]byte(out), &project); err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for name, s := range project.Services {
		if strings.HasPrefix(s.Image, "postgres:") && name == "secrets" {
			continue
		}
		if len(s.Healthcheck.Test) == 0 && !s.Healthcheck.Disable {
			t.Errorf("%s has no health check", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s is published at %q", name, p.HostIP)
			}
		}
		for variable, value := range s.Environment {
			if (strings.Contains(variable, "PASSWORD") || strings.Contains(variable, "SECRET") || strings.Contains(variable, "KEY")) && !strings.HasPrefix(value, "/run/stepwell/") {
				t.Errorf("%s: %s is not a file with a secret", name, variable)
			}
		}
		if strings.HasPrefix(name, "node-") {
			nodes++
			if s.DependsOn["postgres"].Condition != "service_healthy" || !s.ReadOnly || s.Environment["STEPWELL_SERVER_ADVERTISE"] != "http://"+name+":8010" {
				t.Errorf("%s is %+v", name, s)
			}
		}
	}
	if nodes != 2 {
		t.Errorf("%d nodes", nodes)
	}
	if _, said, ok := check(t, "compose", "helm/stepwell/values.yaml"); ok || said == "" {
		t.Error("anything is taken for a compose file")
	}
}

// TestComposeSecrets: the secrets are made once, in the forms that PostgreSQL and Stepwell read.
func TestComposeSecrets(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil || os.Getuid() != 0 {
		t.Skip("the script runs as root of a container")
	}
	out, said, ok := check(t, "compose", "compose/compose.yaml")
	if !ok {
		t.Fatal(said)
	}
	var project struct{ Services map[string]service }
	if err := json.Unmarshal([]byte(out), &project); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	read := func() (all []string) {
		for _, name := range []string{"postgres_password", "pgpass", "master_key"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		return all
	}
	run := func() {
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", strings.ReplaceAll(project.Services["secrets"].Command[0], "$$", "$"))
		cmd.Env = append(os.Environ(), "SECRETS="+dir)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	run()
	made := read()
	if len(made[0]) != 48 || made[1] != "*:*:*:*:"+made[0]+"\n" || len(strings.TrimSpace(made[2])) != 44 {
		t.Errorf("the secrets are %q", made)
	}
	if info, err := os.Stat(filepath.Join(dir, "master_key")); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the master key: %v, %v", info.Mode(), err)
	}
	if run(); !slices.Equal(read(), made) {
		t.Error("a second start makes other secrets")
	}
}

// TestChart: the chart is rendered for what its values allow, each manifest has the fields of its kind and no others, and
// references between them lead somewhere.
func TestChart(t *testing.T) {
	const secrets = "secret: {database: 'postgres://u:p@h/d', masterKey: k, workerKey: sw_k}\n"
	for name, c := range map[string]struct{ values, want string }{
		"the least":         {secrets, "kind: StatefulSet"},
		"a secret of yours": {"secret: {name: mine}", "secretName: mine"},
		"an ingress":        {secrets + "ingress: {enabled: true, className: nginx, tlsSecret: tls}", "ingressClassName: nginx"},
		"workers":           {secrets + "workers: {enabled: true, image: 'stepwell:full', queues: [gpu, default], env: [{name: A, value: b}]}", `--queues, "gpu,default"`},
		"autoscaling":       {secrets + "workers: {enabled: true, autoscaling: {enabled: true, max: 50}}", "maxReplicas: 50"},
		"volumes":           {secrets + "nodes: {storage: 10Gi, storageClass: fast, nodeSelector: {a: b}, tolerations: [{operator: Exists}]}", "storageClassName: fast"},
		"a Dapr sidecar":    {secrets + "dapr: {enabled: true, config: mine, tokenSecret: app, annotations: {dapr.io/log-level: debug}}\nsettings: {dapr: {publish: [workflow.logs]}}", `dapr.io/app-port: "8010"`},
		"its token":         {secrets + "dapr: {enabled: true, tokenSecret: app}", "name: APP_API_TOKEN"},
		"settings":          {secrets + "settings: {server: {stop_seconds: 600}, queues: {gpu: {concurrency: 2}}}", "terminationGracePeriodSeconds: 660"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, said, ok := check(t, "chart", "helm/stepwell", file(t, c.values)); !ok || !strings.Contains(out, c.want) {
				t.Errorf("%s\n%s", said, out)
			}
		})
	}
}

// TestChartRefuses: values that mean nothing are refused with their name.
func TestChartRefuses(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"no database":      {"", "secret.database"},
		"a bad app":        {"secret: {name: mine}\ndapr: {enabled: true, appId: 'a.b'}", "appId"},
		"a misspelt key":   {"secret: {name: mine}\nnode: {replicas: 3}", "node"},
		"a wrong type":     {"secret: {name: mine}\nnodes: {replicas: many}", "replicas"},
		"another database": {"secret: {database: 'sqlite:x', masterKey: k}", "database"},
		"a flag's setting": {"secret: {name: mine}\nsettings: {db: x}", "db"},
		"a wrong variable": {"secret: {name: mine}\nnodes: {env: [{name: A, valeu: b}]}", "valeu"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, said, ok := check(t, "chart", "helm/stepwell", file(t, c.values)); ok || !strings.Contains(said, c.want) {
				t.Errorf("%s\n%s", said, out)
			}
		})
	}
}

// TestManifests: the plain manifests are what the chart gives with their values.
func TestManifests(t *testing.T) {
	out, said, ok := check(t, "chart", "helm/stepwell", "kubernetes/values.yaml")
	if !ok {
		t.Fatal(said)
	}
	out = "# Rendered from the chart with values.yaml: go test ./deploy -run Manifests -update\n" + out
	if *update {
		if err := os.WriteFile("kubernetes/stepwell.yaml", []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile("kubernetes/stepwell.yaml"); err != nil || strings.ReplaceAll(string(have), "\r\n", "\n") != out {
		t.Errorf("kubernetes/stepwell.yaml is not what the chart gives (%v); -update writes it", err)
	}
}

// TestUnits: systemd takes the units, and finds them closed.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze, so the units are not verified")
	}
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) == 0 {
		t.Fatal(units, err)
	}
	for _, name := range units {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if data := regexp.MustCompile(`STEPWELL_DATA=(\S+)`).FindSubmatch(text); data != nil && strings.Contains(string(text), "stepwell serve\n") && strings.Contains(string(text), "\nWorkingDirectory="+string(data[1])+"\n") {
			t.Errorf("%s: steps would work in the data directory, which commands may not touch once there are API keys", name)
		}
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		there := strings.ReplaceAll(string(text), "ExecStart=stepwell", "ExecStart="+program) // systemd looks for it
		unit := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(unit, []byte(there), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify", "--man=no", unit}, {"security", "--offline=true", "--threshold=20", unit}} {
			if said, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || args[0] == "verify" && strings.Contains(string(said), unit) {
				t.Errorf("%s %s: %v\n%s", args[0], name, err, said)
			}
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}
