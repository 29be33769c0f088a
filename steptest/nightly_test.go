package steptest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/steptest"
)

// This test is in docs/testing.md.
func TestNightly(t *testing.T) {
	p := steptest.Load(t, "nightly.yaml", app.Options{}) // the options of your program: its actions and modules
	orders := map[string]any{"status": 200, "body": map[string]any{"orders": []any{map[string]any{"id": 7}, map[string]any{"id": 8}}}}
	p.Mock("fetch", steptest.Fail("503").Takes(3*time.Second).Times(2), steptest.Outputs(orders))
	p.Mock("each[*]", steptest.Outputs(map[string]any{"status": 200}))
	p.MockFunc("deploy", func(_ context.Context, c *action.Call) (any, error) {
		return map[string]any{"exit_code": 0, "stdout": c.Params["command"].([]any)[1]}, nil
	})
	x := p.Run(map[string]any{"region": "eu"}).Want("completed").Gives(map[string]any{"orders": 2})
	x.Step("fetch").Attempts(3).After(2 * time.Minute)
	x.Step("deploy").Gives(map[string]any{"exit_code": 0, "stdout": "eu"})
	x.Step("rollback").Want("skipped")
}
