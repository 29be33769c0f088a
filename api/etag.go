package api

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// maxTags bounds an If-Match or If-None-Match header.
const maxTags = 50

// etag is the entity tag of a revision.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// tags reads a list of entity tags: their revisions (tags of other servers have none), and whether it is "*". Any other
// header is CodeInvalid.
func tags(header, value string) (revisions []int64, any bool, err error) {
	value = strings.TrimSpace(value)
	if value == "*" {
		return nil, true, nil
	}
	bad := stepwell.Invalid(`send the ETag of the answer before as it is, such as "3"`, "%s is not a list of entity tags", header)
	for n := 0; value != ""; n++ {
		value = strings.TrimPrefix(value, "W/")
		if n == maxTags || value == "" || value[0] != '"' {
			return nil, false, bad
		}
		end := strings.IndexByte(value[1:], '"')
		if end < 0 {
			return nil, false, bad
		}
		if rev, err := strconv.ParseInt(value[1:1+end], 10, 64); err == nil && rev > 0 && etag(rev) == value[:end+2] {
			revisions = append(revisions, rev)
		} else {
			revisions = append(revisions, 0) // no revision: matches nothing
		}
		value = strings.TrimLeft(value[end+2:], " \t")
		if value == "" {
			break
		}
		if value[0] != ',' {
			return nil, false, bad
		}
		if value = strings.TrimLeft(value[1:], " \t"); value == "" {
			return nil, false, bad
		}
	}
	return revisions, false, nil
}

// errChanged answers an If-Match that names another revision.
func errChanged(revision int64) error {
	return &stepwell.Error{Code: CodePrecondition, Message: "it has changed meanwhile: its ETag is " + etag(revision), Hint: "get it again, and apply your change to that"}
}

// matching checks If-Match against the revision that is there. Without the header everything matches.
func matching(ifMatch string, revision int64) error {
	if ifMatch == "" {
		return nil
	}
	revisions, any, err := tags("If-Match", ifMatch)
	if err != nil || any || slices.Contains(revisions, revision) {
		return err
	}
	return errChanged(revision)
}

// unchanged says whether If-None-Match names the revision, which makes the answer 304. A header that is no list of
// tags counts for nothing.
func unchanged(ifNoneMatch string, revision int64) bool {
	if ifNoneMatch == "" {
		return false
	}
	revisions, any, err := tags("If-None-Match", ifNoneMatch)
	return err == nil && (any || slices.Contains(revisions, revision))
}
