package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocsHaveTheDefaults: the settings that docs/server.md shows are those that hold without any.
func TestDocsHaveTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("docs/server.md has no settings")
	}
	_, shown, err := parseSettings("docs/server.md", []byte(block))
	if err != nil {
		t.Fatal(err)
	}
	want := defaultServing()
	shown.serving.Queues, shown.serving.Prices, shown.serving.Server.Auth.JWT.Roles = nil, nil, nil
	want.Server.Auth.JWT.RoleClaim = shown.serving.Server.Auth.JWT.RoleClaim // of package access
	shown.serving.Server.Auth.TrustedProxies, shown.serving.Server.CORS.Origins = nil, nil
	if diff := cmp.Diff(want, shown.serving); diff != "" {
		t.Errorf("docs/server.md shows other defaults (-real +shown):\n%s", diff)
	}
	if n := want.Server.Limits.Executions; n < 10_000 {
		t.Errorf("%d executions may have begun: that many pending approvals would stop everything", n)
	}
}
