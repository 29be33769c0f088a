package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// FuzzSettings: any settings file gives known keys only, or an error with its name.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{"", "db: a.db\nworkers: 3\n", "db: {a: b}", "worker: 3", "- a", "http: {allow_private: true}\nservices: {apps: {a: b}, actions: {x: {app: a, path: /}}}", "http: 3", "db: [", "db: a\ndb: b", "&a {db: *a}", "a: &x [*x]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxFile {
			return
		}
		values, _, err := Parse("stepwell.yaml", raw)
		if err != nil {
			if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.HasPrefix(err.Error(), "stepwell.yaml") {
				t.Fatalf("error without its place: %v", err)
			}
			return
		}
		for key := range values {
			if !slices.Contains(Flags, key) {
				t.Fatalf("unknown key %q", key)
			}
		}
	})
}
