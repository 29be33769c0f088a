package definition_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
)

// A secret parameter is as safe as its value is where it comes from.
func TestSecretParameterWarnsOfItsDefault(t *testing.T) {
	for text, warns := range map[string]bool{"secret: true": false, "secret: true, default: hunter22": true, "secret: true, default: ''": false, "default: hunter22": false} {
		_, problems := definition.Parse([]byte("name: x\nparameters: [{name: a, type: string, "+text+"}]\nsteps: [{id: s, action: util.noop}]\n"), definition.ParseOptions{})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, p := range problems {
			found = found || strings.Contains(p.Message, "is not a secret")
		}
		if found != warns {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
