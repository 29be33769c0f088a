package helm

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// causes are what helm's messages say about a failure, the first that matches.
var causes = []struct {
	words []string
	code  stepwell.Code
	hint  string
	lasts bool // another attempt would meet it again
}{
	{[]string{"another operation (install/upgrade/rollback) is in progress", "cannot re-use a name that is still in use"}, stepwell.CodeConflict, "", false},
	{[]string{"Unauthorized", "the server has asked for the client to provide credentials"}, stepwell.CodeDenied, "the cluster does not accept the kubeconfig's credentials", true},
	{[]string{" is forbidden:", "forbidden: User"}, stepwell.CodeDenied, "give the kubeconfig's user a role with this right", true},
	{[]string{"exceeded quota"}, stepwell.CodeLimit, "raise the namespace's quota, or install less", true},
	{[]string{"cluster unreachable", "connection refused", "connection reset", "no such host", "i/o timeout", "TLS handshake timeout", "unexpected EOF", "currently unable to handle the request",
		"Too Many Requests", "etcdserver:", "http2: client connection lost", "no route to host"}, stepwell.CodeUnavailable, "", false},
	{[]string{"invalid ownership metadata", "exists and cannot be imported"}, stepwell.CodeConflict, "an object of the chart belongs to another release or user; give it another name, or delete it", true},
	{[]string{"namespaces \""}, stepwell.CodeNotFound, "create the namespace, or set create_namespace", true},
	{[]string{"don't meet the specifications of the schema"}, stepwell.CodeInvalid, "", true},
	{[]string{"missing in charts/ directory"}, stepwell.CodeInvalid, "put the dependencies into the chart: helm dependency build", true},
	{[]string{"no matches for kind", "ensure CRDs are installed first"}, stepwell.CodeInvalid, "the cluster lacks a definition that the chart needs; install that first", true},
	{[]string{"parse error at", "execution error at", "error calling", "unable to build kubernetes objects", "error converting YAML", "YAML parse error", "Chart.yaml file is missing", "invalid chart", "chart requires kubeVersion",
		"failed to parse", "cannot load", "is invalid:", "template:", "error unmarshaling", "validation:", "unable to decode", "gzip: invalid header", "file does not appear to be a gzipped archive", "chart metadata"},
		stepwell.CodeInvalid, "", true},
	{[]string{"timed out", "context deadline exceeded"}, stepwell.CodeTimeout, "raise timeout_seconds, or see with kubectl what is not ready", false},
}

// diagnose is the error of a run of helm that failed.
func diagnose(what, stderr string) error {
	message := lastOf(stderr)
	err := &stepwell.Error{Code: stepwell.CodeFailed, Message: what + ": " + message}
	for _, c := range causes {
		if slices.ContainsFunc(c.words, func(word string) bool { return strings.Contains(message, word) }) {
			err.Code, err.Hint = c.code, c.hint
			if c.lasts {
				return action.Fail(err)
			}
			return err
		}
	}
	return err
}

// lostRace reports that another helm began to work on the release since it was read.
func lostRace(stderr string) bool {
	return slices.ContainsFunc(causes[0].words, func(w string) bool { return strings.Contains(stderr, w) })
}

// lastOf is the end of helm's messages.
func lastOf(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	return strings.TrimPrefix(strings.Join(lines[max(0, len(lines)-8):], "\n"), "Error: ")
}
