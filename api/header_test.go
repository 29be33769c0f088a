package api

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// isInvalid fails unless the error is one that a client may see, and short.
func isInvalid(t *testing.T, err error) {
	t.Helper()
	if err != nil && (stepwell.CodeOf(err) != stepwell.CodeInvalid || len(err.Error()) > 200) {
		t.Errorf("error %v", err)
	}
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "x", cursorTo("logs", "7"), cursorTo("logs", "-7"), cursorTo("executions", "01890a5d-ac96-774b-bcce-b302099a8057"), strings.Repeat("A", 700), "====", "\x00"} {
		f.Add(seed, "logs")
	}
	f.Fuzz(func(t *testing.T, cursor, list string) {
		last, err := cursorOf(list, cursor)
		if isInvalid(t, err); err == nil && cursor != "" && cursorTo(list, last) != cursor {
			t.Errorf("%q of %q is read as %q", cursor, list, last)
		}
		n, err := numberCursor(list, cursor)
		if isInvalid(t, err); n < 0 {
			t.Errorf("%q is read as %d", cursor, n)
		}
		if cursor != "" && !strings.Contains(list, "\n") && len(cursor)+len(list) < 400 { // as the last entry of a page
			if back, err := cursorOf(list, cursorTo(list, cursor)); err != nil || back != cursor {
				t.Errorf("%q comes back as %q, %v", cursor, back, err)
			}
			if _, err := cursorOf(list+"x", cursorTo(list, cursor)); err == nil {
				t.Errorf("a cursor of %q is taken for one of another list", list)
			}
		}
	})
}

func FuzzIfMatch(f *testing.F) {
	for _, seed := range []string{`"3"`, `*`, `W/"3"`, `"1", "2","3"`, `"`, `"3`, `3`, `"3" "4"`, `"03"`, `"3",`, `,`, `"a\"b"`, strings.Repeat(`"1",`, 100) + `"1"`, "\"\x00\"", `"-3"`} {
		f.Add(seed, int64(3))
	}
	f.Fuzz(func(t *testing.T, header string, revision int64) {
		err := matching(header, revision)
		if code := stepwell.CodeOf(err); err != nil && code != stepwell.CodeInvalid && code != CodePrecondition {
			t.Errorf("error %v", err)
		}
		if revision > 0 && err == nil && header != "" && strings.TrimSpace(header) != "*" && !strings.Contains(header, etag(revision)) {
			t.Errorf("%q matches revision %d", header, revision)
		}
		if unchanged(header, revision) && err != nil {
			t.Errorf("%q is unchanged and does not match: %v", header, err)
		}
		if revision > 0 && matching(etag(revision), revision) != nil {
			t.Errorf("the tag of %d does not match itself", revision)
		}
	})
}

func TestMatching(t *testing.T) {
	for header, want := range map[string]stepwell.Code{"": "", "*": "", `"3"`: "", `W/"3"`: "", ` "1" , "3" `: "", `"2"`: CodePrecondition, `"abc"`: CodePrecondition, `"03"`: CodePrecondition,
		`3`: stepwell.CodeInvalid, `"3`: stepwell.CodeInvalid, `"3",`: stepwell.CodeInvalid, `"3" "3"`: stepwell.CodeInvalid, strings.Repeat(`"1",`, 60) + `"3"`: stepwell.CodeInvalid} {
		if got := stepwell.CodeOf(matching(header, 3)); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	if !unchanged(`"3"`, 3) || !unchanged("*", 3) || unchanged("", 3) || unchanged(`"2"`, 3) || unchanged("3", 3) {
		t.Error("If-None-Match")
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"", "x", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, `"a\"b\\c"`, `"a`, `"a"b`, `""`, "a b", "é", "\x00", strings.Repeat("k", 256), `"\x"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		key, err := idempotencyKey(header)
		if isInvalid(t, err); err != nil && key != "" || len(key) > maxIdempotencyKey {
			t.Errorf("%q gives %q, %v", header, key, err)
		}
		if err == nil && header != "" && key == "" {
			t.Errorf("%q counts as no key", header)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q gives %q", header, key)
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	for header, want := range map[string]string{"": "", "abc": "abc", ` abc `: "abc", `"abc"`: "abc", `"a\"b"`: `a"b`, `a"b`: `a"b`} {
		if got, err := idempotencyKey(header); got != want || err != nil {
			t.Errorf("%s: %q, %v", header, got, err)
		}
	}
	for _, header := range []string{" ", `""`, `"a`, `"a"b`, `"a\b"`, "ü", strings.Repeat("k", 256)} {
		if key, err := idempotencyKey(header); err == nil {
			t.Errorf("%s is the key %q", header, key)
		}
	}
	ann, hash := startKey("ann", "k", "POST", "/execute", []byte("{}"))
	ben, same := startKey("ben", "k", "POST", "/execute", []byte("{}"))
	_, other := startKey("ann", "k", "POST", "/execute", []byte("{ }"))
	if ann == ben || string(hash) != string(same) || string(hash) == string(other) {
		t.Errorf("%s, %s", ann, ben)
	}
	if key, hash := startKey("ann", "", "POST", "/", nil); key != "" || hash != nil {
		t.Errorf("no key is %q", key)
	}
}

func TestStatuses(t *testing.T) {
	for code, want := range map[stepwell.Code]int{stepwell.CodeInvalid: 400, stepwell.CodeUnauthenticated: 401, stepwell.CodeForbidden: 403, stepwell.CodeNotFound: 404,
		stepwell.CodeConflict: 409, CodePrecondition: 412, stepwell.CodeLimit: 429, stepwell.CodeUnavailable: 503, stepwell.CodeInternal: 500, stepwell.CodePanic: 500} {
		p := problemOf(t.Context(), discard, &stepwell.Error{Code: code, Message: "the text", Err: errors.New("the cause")})
		if p.status != want {
			t.Errorf("%s: %d, want %d", code, p.status, want)
		}
		if hidden := want == 500; hidden == strings.Contains(p.Message, "the text") || want >= 500 && strings.Contains(p.Message, "the cause") {
			t.Errorf("%s: %s", code, p.Message)
		}
	}
	if p := problemOf(t.Context(), discard, errors.New("sql: no such table: step")); p.status != 500 || p.Code != stepwell.CodeInternal || strings.Contains(p.Message+p.Hint, "sql") {
		t.Errorf("%+v", p)
	}
}

var discard = slog.New(slog.DiscardHandler)

func TestFacadeWords(t *testing.T) {
	for s, want := range map[stepwell.ExecutionStatus]string{stepwell.ExecutionPending: "pending", stepwell.ExecutionRunning: "running", stepwell.ExecutionPaused: "running",
		stepwell.ExecutionCancelling: "running", stepwell.ExecutionCompleted: "completed", stepwell.ExecutionCompletedWithFailures: "completed", stepwell.ExecutionFailed: "failed",
		stepwell.ExecutionCancelled: "cancelled", stepwell.ExecutionTimedOut: "failed"} {
		if got := stepsExecutionStatus(s); got != want {
			t.Errorf("%s is %s, want %s", s, got, want)
		}
	}
	for s, want := range map[stepwell.StepStatus]string{stepwell.StepPending: "pending", stepwell.StepQueued: "queued", stepwell.StepRunning: "running", stepwell.StepRetrying: "queued",
		stepwell.StepWaiting: "running", stepwell.StepCompleted: "completed", stepwell.StepFailed: "failed", stepwell.StepSkipped: "completed", stepwell.StepCancelled: "failed",
		stepwell.StepTimedOut: "failed"} {
		if got := stepsStepStatus(s, false); got != want {
			t.Errorf("%s is %s, want %s", s, got, want)
		}
	}
	if got := stepsStepStatus(stepwell.StepSkipped, true); got != "pending" {
		t.Errorf("skipped in a failed execution is %s", got)
	}
}
