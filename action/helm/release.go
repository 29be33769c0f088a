package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Labels of a revision that one of our steps has made. Helm copies the labels of a revision to the next one, also to
// those that others make: a revision is only what its labels say when its number is in them.
const (
	labelKey      = "stepwell.io/key"      // hash of the step's idempotency key
	labelDigest   = "stepwell.io/digest"   // hash of the chart and the values
	labelRevision = "stepwell.io/revision" // the number that the revision was to have
	labelMachine  = "stepwell.io/machine"  // where helm runs
	labelUntil    = "stepwell.io/until"    // when that helm has certainly ended, in seconds since 1970
)

// release is a revision of a release.
type release struct {
	Revision           int
	Status             string
	Chart, Version     string
	AppVersion         string
	Notes              string
	First, Last        time.Time
	key, digest, owner string
	meant              int // the revision of the labels
	until              time.Time
}

// releaseTemplate has helm print a revision, one quoted text for each line. Unlike the JSON of `helm status` it has the labels, and
// neither values nor manifests.
const releaseTemplate = `{{with .Release}}{{.Version}}
{{printf "%q" .Info.Status}}
{{printf "%q" .Chart.Metadata.Name}}
{{printf "%q" .Chart.Metadata.Version}}
{{printf "%q" .Chart.Metadata.AppVersion}}
{{.Info.FirstDeployed.UnixMilli}}
{{.Info.LastDeployed.UnixMilli}}
{{printf "%q" (index .Labels "` + labelKey + `")}}
{{printf "%q" (index .Labels "` + labelDigest + `")}}
{{printf "%q" (index .Labels "` + labelMachine + `")}}
{{printf "%q" (index .Labels "` + labelRevision + `")}}
{{printf "%q" (index .Labels "` + labelUntil + `")}}
{{printf "%.16384q" .Info.Notes}}{{end}}`

func parseRelease(text string) (*release, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 13 {
		return nil, &stepwell.Error{Code: stepwell.CodeFailed, Message: fmt.Sprintf("helm described the release in %d lines", len(lines))}
	}
	var err error
	number := func(line string) int64 {
		n, wrong := strconv.ParseInt(line, 10, 64)
		if wrong != nil {
			err = wrong
		}
		return n
	}
	quoted := func(line string) string {
		value, wrong := strconv.Unquote(line)
		if wrong != nil {
			err = wrong
		}
		return value
	}
	r := &release{Revision: int(number(lines[0])), Status: quoted(lines[1]), Chart: quoted(lines[2]), Version: quoted(lines[3]), AppVersion: quoted(lines[4]),
		First: time.UnixMilli(number(lines[5])), Last: time.UnixMilli(number(lines[6])), key: quoted(lines[7]), digest: quoted(lines[8]), owner: quoted(lines[9]), Notes: quoted(lines[12])}
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeFailed, Message: "helm's description of the release", Err: err}
	}
	r.meant, _ = strconv.Atoi(quoted(lines[10])) // others may have written the labels
	until, _ := strconv.ParseInt(quoted(lines[11]), 10, 64)
	r.until = time.Unix(until, 0)
	return r, nil
}

// pending reports that some helm works on the release, or was killed while it did.
func (r *release) pending() bool {
	return strings.HasPrefix(r.Status, "pending-") || r.Status == "uninstalling"
}

// of reports whether the step with the key has made the revision.
func (r *release) of(key string) bool { return r.key == key && r.meant == r.Revision }

// hash is the hash of texts, as the value of a label.
func hash(texts ...string) string {
	raw, err := json.Marshal(texts)
	if err != nil { // texts only
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// waiting is the state of a step that waits for somebody else's work on a release.
type waiting struct {
	Since time.Time `json:"since"`
}

// unfinished decides what becomes of a pending release: nil, it may be repaired now; else the error that puts the step off, or ends it.
func (s *session) unfinished(r *release, key string) error {
	now := time.Now()
	switch {
	case r.of(key) && (r.owner == machine() && s.programs.Alone() || now.After(r.until)):
		return nil // its helm has ended: it was a child of a process of this machine that is dead, or its time is long over
	case s.t.TakeOver && now.Sub(r.Last) > s.t.limit():
		return nil
	}
	return s.putOff(fmt.Sprintf("revision %d of the release %s is %s since %s (%s ago)", r.Revision, s.t.Release, r.Status, r.Last.UTC().Format(time.RFC3339), now.Sub(r.Last).Round(time.Second)))
}

// putOff gives the worker back until the next look, or ends the step after the time for waiting.
func (s *session) putOff(why string) error {
	var state waiting
	if len(s.call.State) > 0 {
		if err := json.Unmarshal(s.call.State, &state); err != nil {
			return action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "state of the wait", Err: err})
		}
	}
	now := time.Now()
	if state.Since.IsZero() {
		state.Since = now
		s.call.Log("waiting: " + why)
	}
	if now.Sub(state.Since) >= s.t.limit() {
		return action.Fail(stepwell.Errorf(stepwell.CodeConflict, "wait for that helm to end; if it was killed, set take_over, or repair the release: helm rollback or helm uninstall", "%s", why))
	}
	return action.Poll(now.Add(s.h.o.Pause), s.id(), state)
}

// repair brings a release out of a state that a killed helm has left: back to the last revision that was good, or away. It
// may wait until all is ready or gone.
func (s *session) repair(ctx context.Context, r *release, wait bool) error {
	good, err := s.lastGood(ctx, r)
	if err != nil {
		return err
	}
	args := []string{"uninstall", s.t.Release}
	if good > 0 {
		args = []string{"rollback", s.t.Release, strconv.Itoa(good)}
	}
	s.call.Log(fmt.Sprintf("revision %d of the release %s was left %s by a helm that has ended: %s", r.Revision, s.t.Release, r.Status, strings.Join(args, " ")))
	a, err := s.helm(ctx, nil, append(args, s.waitFlag(wait), "--timeout", s.t.limit().String())...)
	if err != nil {
		return err
	}
	s.warn(a)
	if a.code != 0 {
		return diagnose("repairing the release", a.stderr)
	}
	return nil
}

// lastGood is the newest revision before r that was deployed; 0: there is none.
func (s *session) lastGood(ctx context.Context, r *release) (int, error) {
	if r.Revision == 1 || r.Status == "pending-install" || r.Status == "uninstalling" {
		return 0, nil
	}
	a, err := s.helm(ctx, nil, "history", s.t.Release, "--output", "json")
	if err != nil {
		return 0, err
	}
	var list []struct {
		Revision int    `json:"revision"`
		Status   string `json:"status"`
	}
	if a.code != 0 {
		return 0, diagnose("reading the release's history", a.stderr)
	}
	if err := json.Unmarshal([]byte(a.stdout), &list); err != nil {
		return 0, &stepwell.Error{Code: stepwell.CodeFailed, Message: "helm's history of the release", Err: err}
	}
	good := 0
	for _, one := range list {
		if one.Revision < r.Revision && (one.Status == "deployed" || one.Status == "superseded") {
			good = max(good, one.Revision)
		}
	}
	return good, nil
}

// waitFlag has helm wait until all is ready or gone.
func (s *session) waitFlag(wait bool) string {
	switch {
	case !wait && s.legacy:
		return "--wait=false"
	case !wait:
		return "--wait=hookOnly"
	case s.legacy:
		return "--wait"
	}
	return "--wait=watcher"
}
