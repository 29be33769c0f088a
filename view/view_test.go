package view

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

const watched = `
name: watched
steps:
  - {id: scan, action: util.noop}
  - {id: copy, action: util.noop, depends_on: [scan]}
  - {id: convert, action: util.noop, depends_on: [scan], for_each: 4}
  - id: group
    steps: [{id: inner, action: util.noop}]
  - {id: report, action: util.noop, depends_on: [copy, extract, convert]}
finally:
  - {id: tidy, action: util.noop}
`

// watching makes a tracker of the pipeline above that draws on a screen of the given size.
func watching(t *testing.T, width, height int) (*Tracker, *liveView, *bytes.Buffer) {
	t.Helper()
	d, problems := definition.Parse([]byte(watched), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	v := &liveView{out: out, size: func() (int, int) { return width, height }, stop: make(chan struct{})}
	v.tracker = New(d, Options{Workers: 2, Of: func(*store.Execution) bool { return true }})
	v.tracker.view = v
	return v.tracker, v, out
}

// update is a commit of the execution that is watched.
func update7(total int, tasks []*engine.Task, rows ...engine.StepRow) *conductor.Update {
	return &conductor.Update{Execution: &store.Execution{No: 7, ID: "x", Status: stepwell.ExecutionRunning}, StepChanges: store.StepChanges{Rows: rows, Tasks: tasks},
		Progress: engine.Progress{Total: total}}
}

func tasks(list ...any) (out []*engine.Task) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, &engine.Task{Idx: int32(list[i].(int)), Key: list[i+1].(string), Attempt: 1})
	}
	return out
}

func done(idx int32, key string) engine.StepRow {
	return engine.StepRow{Idx: idx, Key: key, Status: stepwell.StepCompleted, Attempt: 1, Started: 1_000_000, Ended: 3_500_000}
}

var times = regexp.MustCompile(`\d+\.\d\ds`)

// picture is what is on the screen, without times.
func picture(v *liveView) string {
	var lines []string
	for _, l := range v.picture(time.Now(), 99, 20) {
		lines = append(lines, strings.TrimRight(times.ReplaceAllString(l, "T"), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

func expect(t *testing.T, v *liveView, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), picture(v)); diff != "" {
		t.Errorf("picture (-want +got):\n%s", diff)
	}
}

// TestPicture follows an execution with everything that has a picture of its own.
func TestPicture(t *testing.T) {
	tr, v, _ := watching(t, 100, 24)
	tr.Observe(update7(6, tasks(0, "scan"), engine.StepRow{Idx: 3, Status: stepwell.StepRunning}))
	tr.Advance(7, 0, worker.Progress{Fraction: 0.5, Note: "halfway"})
	expect(t, v, `
 ⠋ scan      ━━━━━━━━━━──────────   50%  T  halfway
 · copy
 · convert
 ⠋ group     T
 ·   inner
 · report
`)
	// A for_each of four begins; the copy spawns two steps, whose line goes before who waits for them.
	tr.Observe(update7(10, append(tasks(1, "copy", 10, "convert[0]"), tasks(11, "convert[1]", 12, "convert[2]", 13, "convert[3]")...),
		done(0, ""), engine.StepRow{Idx: 2, Status: stepwell.StepRunning}))
	tr.Observe(update7(12, tasks(20, "extract:a.mp4", 21, "extract:b[1].mp4"),
		engine.StepRow{Idx: 20, Key: "extract:a.mp4"}, engine.StepRow{Idx: 21, Key: "extract:b[1].mp4"}))
	tr.Observe(update7(12, nil, done(10, "convert[0]"),
		engine.StepRow{Idx: 11, Key: "convert[1]", Status: stepwell.StepFailed, Attempt: 1, Error: &engine.Failure{Message: "torn"}}))
	expect(t, v, `
 ✔ scan      T
 ⠋ copy      T
 ⠋ convert   ━━━━━━━━━━──────────  2/4  1 failed  1 running  T
 ⠋ group     T
 ·   inner
 ⠋ extract   ────────────────────  0/2
 · report
`)
	wake := time.Now().Add(time.Hour).UnixMicro()
	tr.Observe(update7(12, nil, engine.StepRow{Idx: 1, Status: stepwell.StepRetrying, Attempt: 1, Wake: wake, Error: &engine.Failure{Message: "no\nluck"}},
		done(12, "convert[2]"), done(13, "convert[3]"), done(2, ""), done(20, "extract:a.mp4"), done(21, "extract:b[1].mp4"),
		engine.StepRow{Idx: 4, Status: stepwell.StepSkipped, Error: &engine.Failure{Message: "copy failed"}}, done(30, "finally.tidy")))
	got := regexp.MustCompile(`again in \S+:`).ReplaceAllString(picture(v), "again in T:")
	want := ` ✔ scan          T
 ↻ copy          attempt 1 failed, again in T: no luck
 ✔ convert       4/4  1 failed  T
 ⠋ group         T
 ·   inner
 ✔ extract       2/2
 ⊘ report        skipped: copy failed
 ✔ finally.tidy  T
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("picture (-want +got):\n%s", diff)
	}
}

// TestPictureOfRestart: what a restart resets begins again, spawned steps are not counted twice.
func TestPictureOfRestart(t *testing.T) {
	tr, v, _ := watching(t, 100, 24)
	spawn := engine.StepRow{Idx: 20, Key: "extract:a"}
	tr.Observe(update7(7, nil, done(0, ""), done(1, ""), spawn, done(20, "extract:a"), done(4, "")))
	tr.Observe(update7(7, nil, engine.StepRow{Idx: 1}, spawn, engine.StepRow{Idx: 4}))
	expect(t, v, `
 ✔ scan      T
 · copy
 · convert
 · group
 ·   inner
 ⠋ extract   ────────────────────  0/1
 · report
`)
}

// TestSmallScreen: what runs and what failed is shown first, and never more than fits.
func TestSmallScreen(t *testing.T) {
	var lines []*line
	for i := range 50 {
		l := &line{shape: shape{key: fmt.Sprint("s", i)}, status: stepwell.StepCompleted}
		switch i {
		case 30:
			l.status = stepwell.StepFailed
		case 40:
			l.status = stepwell.StepRunning
		case 45, 46, 47, 48, 49:
			l.status = stepwell.StepPending
		}
		lines = append(lines, l)
	}
	shown, rest := choose(lines, 5)
	var keys []string
	for _, l := range shown {
		keys = append(keys, l.key)
	}
	if got := strings.Join(keys, " "); got != "s30 s40 s45 s46" || rest != "… and 46 more, 43 of them done" {
		t.Errorf("%s; %s", got, rest)
	}
	for height := range 12 {
		if shown, rest := choose(lines, max(1, height)); len(shown) > height || rest == "" {
			t.Errorf("%d lines on a screen of %d", len(shown), height)
		}
	}
}

// TestRedraw: each picture replaces the one before, notes stay above, and no line is wider than the
// screen.
func TestRedraw(t *testing.T) {
	tr, v, out := watching(t, 40, 24)
	v.colour = true
	tr.Observe(update7(6, tasks(0, "scan")))
	v.draw(time.Now(), false)
	first := strings.Count(out.String(), "\n")
	out.Reset()
	tr.Log(store.LogLine{Execution: 7, Step: 0, StepKey: "scan", Level: "warning", Message: "disk \x1b[2Jnearly full"})
	tr.Log(store.LogLine{Execution: 7, Step: 0, StepKey: "scan", Level: "info", Message: strings.Repeat("a long line ", 20)})
	v.draw(time.Now(), false)
	text := out.String()
	if !strings.HasPrefix(text, fmt.Sprintf("\x1b[%dA\r\x1b[J", first)) {
		t.Errorf("the picture of %d lines is not replaced: %q", first, text)
	}
	if strings.Contains(text, "\x1b[2J") || !strings.Contains(text, "nearly full") {
		t.Errorf("a step's control characters reach the terminal: %q", text)
	}
	plain := regexp.MustCompile("\x1b\\[[0-9;]*[mAJ]").ReplaceAllString(text, "")
	for i, l := range strings.Split(plain, "\n") {
		if n := len([]rune(l)); i > 0 && n > 39 {
			t.Errorf("line of %d characters on a screen of 40: %q", n, l)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0.00s", 1234 * time.Millisecond: "1.23s", 42 * time.Second: "42.0s",
		125 * time.Second: "2m05s", 25*time.Hour + 3*time.Minute: "25h03m"} {
		if got := Short(d); got != want {
			t.Errorf("Short(%s) is %s, want %s", d, got, want)
		}
	}
}

// TestPictureOfStream: the picture of an execution is the same from what the conductor tells and from what the API's stream
// does, which says nothing of steps that have others inside, of a segment's further steps and of restarted counts.
func TestPictureOfStream(t *testing.T) {
	here, drawn, _ := watching(t, 100, 24)
	here.Observe(update7(6, tasks(0, "scan")))
	here.Observe(update7(10, tasks(1, "copy", 10, "convert[0]", 11, "convert[1]", 12, "convert[2]", 13, "convert[3]"), done(0, ""), engine.StepRow{Idx: 2, Status: stepwell.StepRunning, Attempt: 1}))
	here.Observe(update7(10, tasks(30, "group.inner"), done(1, ""), done(10, "convert[0]"), engine.StepRow{Idx: 3, Status: stepwell.StepRunning, Attempt: 1}))
	here.Observe(update7(10, nil, done(11, "convert[1]"), done(30, "group.inner"), done(3, "")))

	there, want, _ := watching(t, 100, 24)
	at := time.Now()
	tell := func(total int, state stepwell.StepStatus, keys ...string) {
		for _, key := range keys {
			there.Apply(&Event{At: at, Type: "step", Execution: "x", Step: key, State: state}, &engine.Progress{Total: total})
		}
	}
	there.Apply(&Event{At: at, Type: "execution", Execution: "x", Status: "running"}, nil)
	const queued, running, completed = stepwell.StepQueued, stepwell.StepRunning, stepwell.StepCompleted
	tell(6, queued, "scan")
	tell(6, running, "scan")
	tell(6, completed, "scan")
	tell(10, queued, "copy", "#10", "convert[1]", "convert[2]", "convert[3]")
	tell(10, running, "copy", "convert[0]", "convert[1]", "convert[2]", "convert[3]")
	tell(10, completed, "copy", "convert[0]")
	tell(10, queued, "group.inner")
	tell(10, completed, "convert[1]", "group.inner", "group")
	if diff := cmp.Diff(picture(drawn), picture(want)); diff != "" {
		t.Errorf("picture (-conductor +stream):\n%s", diff)
	}
	if !strings.Contains(picture(drawn), "2/4  2 running") {
		t.Error(picture(drawn))
	}
}

// A handler has no name in the stream until it has ended, if the stream is read before it is told: its start is shown then.
func TestStartOfUnnamedHandler(t *testing.T) {
	d, problems := definition.Parse([]byte(watched), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	tr := New(d, Options{Out: out})
	tr.Apply(&Event{At: time.Now(), Type: "step", Execution: "x", Step: "#5", State: stepwell.StepQueued}, nil)
	tr.Apply(&Event{At: time.Now(), Type: "step", Execution: "x", Step: "finally.tidy", State: stepwell.StepCompleted}, nil)
	tr.Close()
	if got := out.String(); !strings.Contains(got, "started   finally.tidy") || !strings.Contains(got, "completed finally.tidy") {
		t.Error(got)
	}
}

// TestPictureOfApproval: a step that waits for an approval says what it asks, and how it is decided stays on the screen.
func TestPictureOfApproval(t *testing.T) {
	d, problems := definition.Parse([]byte("name: asks\nsteps:\n  - {id: ask, action: util.approval, params: {message: 'Continue?'}}\n"), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	var told []string
	out := &bytes.Buffer{}
	tracker := New(d, Options{Workers: 2, Of: func(*store.Execution) bool { return true }, Asked: func(step string) { told = append(told, step) }})
	v := &liveView{out: out, size: func() (int, int) { return 80, 24 }, stop: make(chan struct{}), tracker: tracker}
	tracker.view = v
	tracker.Observe(update7(1, tasks(0, "ask")))
	tracker.Observe(update7(1, nil, engine.StepRow{Idx: 0, Status: stepwell.StepWaiting, Attempt: 1}))
	if len(told) != 1 || told[0] != "ask" || tracker.Execution() != "x" {
		t.Fatalf("told of %q of %s", told, tracker.Execution())
	}
	tracker.Asks("ask", "Continue?", "stepwell approvals approve x.ask")
	v.draw(time.Now(), false)
	for _, want := range []string{"ask waits for an approval: Continue?  Decide: stepwell approvals approve x.ask\n", "◷ ask       waits for an approval: Continue?\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
