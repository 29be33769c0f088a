package settings

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// TestDocsHaveTheDefaults: the settings that docs/server.md shows are those that hold without any.
func TestDocsHaveTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("docs/server.md has no settings")
	}
	_, shown, err := Parse("docs/server.md", []byte(block))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	shown.Serving.Queues, shown.Serving.Prices, shown.Serving.Server.Auth.JWT.Roles = nil, nil, nil
	want.Server.Auth.JWT.RoleClaim = shown.Serving.Server.Auth.JWT.RoleClaim // of package access
	shown.Serving.Server.Auth.TrustedProxies, shown.Serving.Server.CORS.Origins = nil, nil
	shown.Serving.Server.Auth.OIDC.Scopes, shown.Serving.Server.Auth.OIDC.Roles = nil, nil
	shown.Serving.Exec, shown.Serving.Files, shown.Serving.Templates = Exec{}, Files{}, Templates{}
	if diff := cmp.Diff(want, shown.Serving); diff != "" {
		t.Errorf("docs/server.md shows other defaults (-real +shown):\n%s", diff)
	}
	if n := want.Server.Limits.Executions; n < 10_000 {
		t.Errorf("%d executions may have begun: that many pending approvals would stop everything", n)
	}
}

// TestDocsOfMetrics: docs/server.md says how Prometheus reads the metrics, where the dashboard is, and where traces go.
func TestDocsOfMetrics(t *testing.T) {
	text, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "## Metrics and traces")
	_, block, there := strings.Cut(part, "```yaml\n")
	if block, _, _ = strings.Cut(block, "```"); !ok || !there {
		t.Fatal("docs/server.md has no such part")
	}
	var config struct {
		Scrape []struct {
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(block), &config); err != nil || len(config.Scrape) != 1 || len(config.Scrape[0].Static) != 1 ||
		len(config.Scrape[0].Static[0].Targets) != 1 || config.Scrape[0].Static[0].Targets[0] != DefaultListen {
		t.Errorf("the settings of Prometheus are %+v, %v", config, err)
	}
	for _, want := range []string{"(grafana-dashboard.json)", "`telemetry.otlp_endpoint`", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if !strings.Contains(part, want) {
			t.Errorf("nothing is said of %s", want)
		}
	}
	if platformNames["OTEL_EXPORTER_OTLP_ENDPOINT"] != "STEPWELL_TELEMETRY_OTLP_ENDPOINT" {
		t.Error("the variable is not read")
	}
	if _, err := os.Stat("../docs/grafana-dashboard.json"); err != nil {
		t.Error(err)
	}
}

// TestDocsHaveAllSettings: docs/server.md shows every key that the settings of a server have.
func TestDocsHaveAllSettings(t *testing.T) {
	text, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var shown map[string]any
	if err := yaml.Unmarshal([]byte(block), &shown); err != nil {
		t.Fatal(err)
	}
	leaves := servingLeaves()
	if len(leaves) < 30 {
		t.Fatalf("%d settings", len(leaves))
	}
	for variable, leaf := range leaves {
		names, last := leaf.Path, len(leaf.Path)-1
		within, ok := shown, true
		for _, name := range names[:last] {
			if within, ok = within[name].(map[string]any); !ok {
				break
			}
		}
		if _, there := within[names[last]]; !there {
			t.Errorf("docs/server.md does not show %s (%s)", strings.Join(names, "."), variable)
		}
	}
}
