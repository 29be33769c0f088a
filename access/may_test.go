package access_test

import (
	"testing"

	"github.com/stepwell/stepwell/access"
)

// Roles are a ladder, but for the worker's, which stands beside it.
func TestMay(t *testing.T) {
	for _, c := range []struct {
		role, does access.Role
		may        bool
	}{
		{access.Viewer, access.Viewer, true}, {access.Viewer, access.Operator, false}, {access.Admin, access.Editor, true},
		{access.Worker, access.Worker, true}, {access.Worker, access.Viewer, false}, {access.Worker, access.Admin, false},
		{access.Editor, access.Worker, false}, {access.Admin, access.Worker, true}, {0, access.Worker, false},
	} {
		if got := c.role.May(c.does); got != c.may {
			t.Errorf("%s may what %s may: %t", c.role, c.does, got)
		}
	}
}
