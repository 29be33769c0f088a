package tooltest_test

import (
	"os"
	"testing"

	"github.com/stepwell/stepwell/tooltest"
)

// TestTools builds every program, or finds it built.
func TestTools(t *testing.T) {
	if testing.Short() {
		t.Skip("builds whole programs")
	}
	for _, tool := range tooltest.All {
		t.Run(tool.Dir, func(t *testing.T) {
			if _, err := os.Stat(tooltest.Path(t, tool)); err != nil {
				t.Error(err)
			}
		})
	}
}
