package fakeai

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

// TestOfficialClient has OpenAI's own client for node judge the answers.
func TestOfficialClient(t *testing.T) {
	const purpose = "not judged by OpenAI's client"
	folder := tooltest.Packages(t, purpose, "openai@7.57.0")
	cmd := exec.CommandContext(t.Context(), tooltest.Program(t, purpose, "node"), "testdata/client.mjs", folder, serve(t, Options{Key: "sk-test"})+"/v1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "all is well") {
		t.Errorf("%v\n%s", err, out)
	}
}
