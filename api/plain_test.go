package api_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// What people read at a terminal is not escaped for web pages, and says what it is about.
func TestPlainMessages(t *testing.T) {
	r := newRig(t)
	if got := r.do("admin", "GET", "/api/v1/<x>", nil); !strings.Contains(string(got.body), "/api/v1/<x>") {
		t.Errorf("%s", got.body)
	}
	p := r.do("admin", "POST", "/api/v1/execute", `{"action_type":"util.noop","params":{"s":1e400}}`).problem(400, stepwell.CodeInvalid)
	if !strings.Contains(p.Message, "something in it has the wrong type: it is a number 1e400") {
		t.Errorf("%s", p.Message)
	}
	p = r.do("admin", "POST", "/api/v1/execute", `{}`).problem(400, stepwell.CodeInvalid)
	if !strings.Contains(p.Hint, "workflow_definition") {
		t.Errorf("the hint names no field of the request: %s", p.Hint)
	}
}
