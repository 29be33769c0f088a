package git

import (
	"errors"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// causes are what git's messages, in the C locale, say about a failure, the first that matches. All but the last kind
// fail the step for good.
var causes = []struct {
	words []string
	code  stepwell.Code
	hint  string
}{
	{[]string{"returned error: 429", "returned error: 5"}, stepwell.CodeUnavailable, ""},
	{[]string{"could not read Username", "could not read Password", "Authentication failed", "Invalid username or", "returned error: 401", "returned error: 403", "Permission denied", "access denied"},
		stepwell.CodeDenied, "give a credential that may read the repository"},
	{[]string{"Host key verification failed"}, stepwell.CodeDenied, "put the server's key into the file of the setting git.known_hosts"},
	{[]string{"not allowed"}, stepwell.CodeDenied, "the setting git.protocols says which protocols are allowed"},
	{[]string{"returned error: 404", "not found", "does not appear to be a git repository", "does not exist"}, stepwell.CodeNotFound, "check repo, and whether the credential opens it"},
	{[]string{"returned error: 3", "unable to update url base from redirection"}, stepwell.CodeInvalid, "give the address that the server redirects to"},
	{[]string{"SSL certificate problem", "server certificate verification failed", "certificate"}, stepwell.CodeInvalid, "name the server's authorities in the setting git.ca_file"},
	{[]string{"fsck error", "did not pass the checks", "fsck_objects", "missingSpaceBeforeDate", "error in object"}, stepwell.CodeInvalid, "git fsck shows what is wrong with the repository"},
	{[]string{"No space left on device"}, stepwell.CodeUnavailable, "make room"},
}

// diagnose is the error of a run of git against a server.
func (s *session) diagnose(what, stderr string) error {
	if s.gate != nil {
		if err := s.gate.refused(); err != nil {
			return refusal(err)
		}
	}
	err := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "git " + what + ": " + lastOf(stderr)}
	for _, c := range causes {
		if slices.ContainsFunc(c.words, func(word string) bool { return strings.Contains(stderr, word) }) {
			err.Code, err.Hint = c.code, c.hint
			break
		}
	}
	if err.Code == stepwell.CodeUnavailable {
		return err
	}
	return action.Fail(err)
}

// refusal is the error of an address that could not be reached: for good where it is not allowed.
func refusal(err error) error {
	if f, ok := errors.AsType[*outbound.Failure](err); ok && f.Kind == outbound.KindBlocked {
		return action.Fail(f)
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "reach the repository's server", Err: err}
}
