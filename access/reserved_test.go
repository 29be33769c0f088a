package access

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// TestReserved: a reserved action is for what admins wrote, until a rule of another role allows it by its name; a pattern
// does not, and what is denied stays so.
func TestReserved(t *testing.T) {
	named := Rule{Allow: []string{"*", "util.backup"}}
	for name, test := range map[string]struct {
		role             string
		settings, stored Policy
		allowed          bool
	}{
		"nobody said anything": {"editor", Policy{}, Policy{}, false},
		"an admin":             {"admin", Policy{}, Policy{}, true},
		"a pattern":            {"editor", Policy{}, Policy{Roles: map[string]Rule{"editor": {Allow: []string{"util.*"}}}}, false},
		"for all":              {"editor", Policy{}, Policy{Actions: named}, false},
		"by its name":          {"editor", Policy{}, Policy{Roles: map[string]Rule{"editor": named}}, true},
		"in the settings":      {"editor", Policy{Roles: map[string]Rule{"editor": named}}, Policy{}, true},
		"another role's":       {"editor", Policy{}, Policy{Roles: map[string]Rule{"admin": named}}, false},
		"and denied":           {"editor", Policy{Actions: Rule{Deny: []string{"util.b*"}}}, Policy{Roles: map[string]Rule{"editor": named}}, false},
		"an admin, denied":     {"admin", Policy{}, Policy{Actions: Rule{Deny: []string{"util.backup"}}}, false},
	} {
		p := &Policies{settings: &test.settings}
		p.stored.Store(&StoredPolicy{Policy: test.stored})
		err := p.Check(Use{Names: []string{"util.backup"}, Role: test.role, Reserved: true})
		if (err == nil) != test.allowed || err != nil && (stepwell.CodeOf(err) != stepwell.CodeDenied || !strings.Contains(err.Error(), "util.backup")) {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Check(Use{Names: []string{"util.log"}, Role: test.role}); err != nil && !strings.Contains(name, "pattern") {
			t.Errorf("%s: another action: %v", name, err)
		}
	}
}
