package definition

import (
	"strings"
	"testing"
)

// A server does not put its own environment into a sent document, and reports a placeholder (B1).
func TestSentDocument(t *testing.T) {
	const document = `
name: sent
steps:
  - {id: a, action: util.exec, params: {command: "echo %s"}}
`
	for text, problem := range map[string]string{
		"${HOME}":        "4:51: ${HOME} is put in when a file is loaded, and this document was sent",
		"${HOME:-/root}": "4:51: ${HOME:-/root} is put in when a file is loaded, and this document was sent",
		"$${HOME}":       "",
		"$HOME":          "",
	} {
		src := []byte(strings.Replace(document, "%s", text, 1))
		d, problems := Parse(src, ParseOptions{Sent: true})
		if problem != "" {
			if len(problems) != 1 || !strings.Contains(problems[0].String(), strings.SplitN(problem, ": ", 2)[1]) || problems[0].Line != 4 || !strings.Contains(problems[0].Hint, "$"+text) {
				t.Errorf("%s: %v", text, problems)
			}
			continue
		}
		want := "echo " + strings.Replace(text, "$${", "${", 1)
		if len(problems) > 0 || d.Steps[0].Params["command"] != want {
			t.Errorf("%s: %v, %v", text, d.Steps[0].Params, problems)
		}
	}
	d, problems := Parse([]byte(strings.Replace(document, "%s", "${HOME}", 1)), ParseOptions{Stored: true})
	if len(problems) > 0 || d.Steps[0].Params["command"] != "echo ${HOME}" {
		t.Errorf("stored by an earlier version: %v, %v", d.Steps[0].Params, problems)
	}
}
