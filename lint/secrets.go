package lint

import (
	"fmt"
	"strings"

	"github.com/stepwell/stepwell/definition"
)

// secret reports a template with a secret in it, at a place where the secret is seen.
func (s *scene) secret(t *text) {
	pos := t.Place(1, 1)
	if t.Site == definition.InOutputs {
		s.add("SW404", pos, t.Path, "an output derives from a secret", "give its name, or only what may be seen; readers find *** here", false)
		return
	}
	if t.at.list < 0 || t.Site != definition.InParams {
		return
	}
	step := s.step(t.at)
	under := func(names ...string) bool {
		for _, name := range names {
			if rest, ok := strings.CutPrefix(t.At, "params/"+name); ok && (rest == "" || rest[0] == '/') {
				return true
			}
		}
		return false
	}
	about := s.action(step)
	if about == nil {
		return
	}
	switch about.Name {
	case "util.log", "util.fail":
		s.add("SW401", pos, t.Path, fmt.Sprintf("%q writes a secret to the log", step.ID), "leave it out; readers find *** here", false)
	case "util.set_output":
		s.add("SW404", pos, t.Path, fmt.Sprintf("an output of %q derives from a secret", step.ID), "read the secret in the step that needs it; readers find *** here", false)
	case "util.exec", "external.git.run":
		if under("command", "args") {
			s.add("SW402", pos, t.Path, fmt.Sprintf("the command line of %q has a secret, and other processes see command lines", step.ID),
				"hand it over in env: {NAME: …} or stdin:, and let the program read it there", false)
		}
	case "external.k8s.job", "external.k8s.cronjob":
		if under("command", "args", "env_vars") {
			s.add("SW402", pos, t.Path, fmt.Sprintf("the job of %q has a secret, and everybody who may read the job sees it", step.ID), "hand it over in env_from_secrets:", false)
		}
	case "util.http":
		if under("url", "query") {
			s.add("SW403", pos, t.Path, fmt.Sprintf("the URL of %q has a secret, and servers and proxies log URLs", step.ID), "send it in headers:, such as Authorization", false)
		}
	}
}
