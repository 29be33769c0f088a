package definition

import (
	"fmt"
	"strings"

	"github.com/stepwell/stepwell/expr"
)

// Site is the place of a template, for values visible in some places only.
type Site uint8

const (
	InParams    Site = iota // of an action
	InConfig                // of a module
	InPipeline              // the params of a sub-pipeline
	InCondition             // of a step
	InLoop                  // the list of a for_each
	InOutputs               // of the pipeline
	InKey                   // of settings.concurrency
	InSettings              // of a step
)

// recorded is the reason that a place may read no secret, and the alternative.
var recorded = map[Site][2]string{
	InPipeline:  {"the params of a pipeline are recorded", "read the secret in the step of that pipeline that needs it"},
	InCondition: {"how a condition was decided is recorded", "read it in the params of a step, and decide by that step's outputs"},
	InLoop:      {"what for_each goes over is recorded", "read it in the params of the step that is repeated"},
	InOutputs:   {"outputs are recorded", "pass on the name of the secret instead"},
	InSettings:  {"settings are shown with the step", "read the secret in the params of the step"},
	InKey:       {"the key is recorded", "use params that are not secret"},
}

// secretRef checks a reference to secrets: each is named in the document, and read only where it is not
// recorded.
func (c *checker) secretRef(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	if why, ok := recorded[src.site]; ok {
		return "secrets cannot be read here: " + why[0], why[1], false
	}
	switch {
	case len(ref.Path) < 2:
		return "a secret has to be named in the document", "write secrets.NAME, or secrets['NAME'] when the name has a dot or a dash", false
	case !secretName(ref.Path[1]):
		return fmt.Sprintf("no secret can have the name %q", ref.Path[1]), "a name begins with a letter or _ and continues with letters, digits, _ . and -", false
	case len(ref.Path) > 2:
		return fmt.Sprintf("a secret is a text and has no %q", ref.Path[2]), fmt.Sprintf("a name with a dot is written secrets['%s']", strings.Join(ref.Path[1:], ".")), false
	}
	return "", "", false
}

// credentialRef checks a reference to what a parameter of type credential_ref names.
func (c *checker) credentialRef(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	if why, ok := recorded[src.site]; ok {
		return "credentials cannot be read here: " + why[0], why[1], false
	}
	if len(ref.Path) != 2 {
		return "a credential has to be named in the document", "write credentials.NAME, where NAME is a parameter of type credential_ref", false
	}
	var names []string
	for i := range c.def.Parameters {
		p := &c.def.Parameters[i]
		if p.Name == ref.Path[1] && p.Credential {
			return "", "", false
		}
		if p.Credential {
			names = append(names, p.Name)
		}
	}
	return fmt.Sprintf("%q is not a parameter of type credential_ref", ref.Path[1]), c.didYouMean(ref.Path[1], names, "declare it among the parameters: {name: "+ref.Path[1]+", type: credential_ref}"), false
}

// secretName: 1 to 128 characters, a letter or _ first, then also digits, . and -.
func secretName(s string) bool { return len(s) <= 128 && isName(s, "_", "_0123456789.-") }

// callbackRef checks a reference to the address that ends a step from outside.
func callbackRef(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	switch {
	case src.site != InParams:
		return "the callback is known only in the params of an action", "it is the address under which the step's own answer is awaited", false
	case len(ref.Path) != 2 || ref.Path[1] != "url":
		return "a callback has only a url", "write callback.url", false
	}
	return "", "", false
}

// keyRef checks a reference in the key of settings.concurrency, which is rendered before the execution
// exists and is stored with it.
func (c *checker) keyRef(ref *expr.Ref) (message, hint string, warning bool) {
	switch root := ref.Path[0]; root {
	case "params":
		for i := range c.def.Parameters {
			if p := &c.def.Parameters[i]; p.Secret && (len(ref.Path) < 2 || p.Name == ref.Path[1]) {
				return fmt.Sprintf("the parameter %q is secret, and the key is recorded", p.Name), recorded[InKey][1], false
			}
		}
	case "execution":
		if len(ref.Path) != 2 || ref.Path[1] != "pipeline" {
			return "of the execution only its pipeline is known before it exists", "write execution.pipeline, or use params", false
		}
	case "item", "index", "project", "lesson":
		return fmt.Sprintf("%q is unknown before the execution exists", root), "use params", false
	}
	return "", "", false
}
