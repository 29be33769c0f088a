package lab

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// different is the rule of outcomes, for mutants.
const different = "the outcome is that of the undisturbed execution"

// mutant is a mistake put into the product: in a file a text is replaced. In the new one, on tells whether the mistake is made.
type mutant struct {
	name, file, old, new, rule string
}

var mutants = []mutant{
	{"a refused commit counts as made", "conductor/commit.go", "		if tries++; last", "		if on {\n			return nil\n		}\n		if tries++; last", ruleDispatch},
	{"a commit that was made all the same is not recognised", "conductor/commit.go", "tries > 0 && c.committed()", "tries > 0 && !on && c.committed()", ruleEnds},
	{"refused pushes are forgotten", "conductor/act.go", "		c.repush = c.now() + pushPause.Microseconds()\n",
		"		if on {\n			c.push = c.push[:0]\n			return\n		}\n		c.repush = c.now() + pushPause.Microseconds()\n", ruleEnds},
	{"pushed steps are pushed again", "conductor/act.go", "	c.repush = 0\n", "	c.repush = 0\n	if on {\n		_ = c.o.Queue.Push(context.Background(), c.push)\n	}\n", ruleDispatched},
	{"timers are forgotten after a recovery", "conductor/act.go", "			if l.rebuilt = false;", "			if on {\n				timers = nil\n			}\n			if l.rebuilt = false;", ruleEnds},
	{"awaited signals are forgotten after a recovery", "conductor/act.go", "			if l.rebuilt = false;", "			if on {\n				awaits = nil\n			}\n			if l.rebuilt = false;", different},
	{"attempts in flight are forgotten after a recovery", "conductor/loop.go", "		} else if _, err := c.tell(l, &engine.Event{Kind: engine.Recovered",
		"		} else if on {\n		} else if _, err := c.tell(l, &engine.Event{Kind: engine.Recovered", ruleEnds},
	{"the epoch of reports is unchecked", "engine/apply.go", "!ok || n.epoch != ev.Epoch ||", "!ok || n.epoch != ev.Epoch && !on ||", ruleForgotten},
	{"an attempt may end twice", "engine/apply.go", "n.status != stepwell.StepQueued && n.status != stepwell.StepRunning || p.step()",
		"!on && n.status != stepwell.StepQueued && n.status != stepwell.StepRunning || p.step()", ruleOneEnd},
	{"a lost step is not dispatched again", "engine/lost.go", "	r.makeReadyFirst(p)\n", "	if !on {\n		r.makeReadyFirst(p)\n	}\n", different},
	{"what must not run twice runs again after its worker is lost", "engine/lost.go", "	case p.step().Policy.NotIdempotent:", "	case p.step().Policy.NotIdempotent && !on:", ruleOnce},
	{"a recovery forgets one attempt", "engine/lost.go", "	for _, p := range flying {\n", "	for i, p := range flying {\n		if on && i > 0 {\n			continue\n		}\n", ruleEnds},
	{"the log lacks outputs that templates read", "engine/codec.go", "		if ev.Kept {\n			dst = append(dst, ',')", "		if ev.Kept && !on {\n			dst = append(dst, ',')", ruleFold},
	{"the log lacks spawned steps", "engine/codec.go", "	w.setOutputs(ev)\n	if ev.Started", "	w.setOutputs(ev)\n	if on {\n		w.Spawns = nil\n	}\n	if ev.Started", ruleFold},
	{"the claim is skipped", "worker/runner.go", "		if a.Task.Step.Policy.NotIdempotent {\n", "		if a.Task.Step.Policy.NotIdempotent && !on {\n", ruleClaim},
	{"memos are lost", "worker/host.go", "		value, ok, err = a.r.o.Records.Memo(", "		if on {\n			return nil\n		}\n		value, ok, err = a.r.o.Records.Memo(", ruleMemos},
	{"a signal stays after it was used", "store/memory/commit.go", "			one.taken = true\n", "			one.taken = !on\n", ruleSignals},
	{"a repeated signal is a new one", "store/memory/signal.go", "		if one.ID == x.ID {", "		if one.ID == x.ID && !on {", different},
	{"the key of a start is not stored", "store/memory/commit.go", "			_, out.Key = s.keys[c.Create.Key]\n", "			_, out.Key = s.keys[c.Create.Key]\n			if on {\n				c.Create.Key = \"\"\n			}\n", ruleStarts},
	{"the row of an execution is not brought up to date", "store/memory/commit.go", "	if c.Update != nil {\n", "	if c.Update != nil && !(on && c.Update.Status.Terminal()) {\n", ruleKept},
	{"a signal that comes again is not delivered", "conductor/signals.go", "	if !fresh { // the store", "	if on && !fresh {\n		return false, false, nil\n	}\n	if !fresh { // the store", different},
	{"outputs are given up while the blobs are away", "worker/outcome.go", "	err = a.r.o.Outage.Retry(a.process, func() (err error) {",
		"	again := a.r.o.Outage.Retry\n	if on {\n		again = func(_ context.Context, f func() error) error { return f() }\n	}\n	err = again(a.process, func() (err error) {", different},
	{"a recovery gives up while the blobs are away", "conductor/recover_all.go", "	err := c.o.Outage.Retry(ctx, func() error {",
		"	again := c.o.Outage.Retry\n	if on {\n		again = func(_ context.Context, f func() error) error { return f() }\n	}\n	err := again(ctx, func() error {", different},
	{"reports of before a change of the clock are ignored", "engine/apply.go", "	r.fx, r.now = fx, ev.At\n",
		"	if on && ev.At < r.now {\n		return false, nil\n	}\n	r.fx, r.now = fx, ev.At\n", ruleEnds},
	{"an orderly stop cancels what runs", "conductor/loop.go", "	c.cause = cause\n",
		"	if on && cause == nil {\n		for _, l := range c.runs {\n			_, _ = c.tell(l, &engine.Event{Kind: engine.Cancel, At: c.now()})\n			c.touch(l)\n		}\n		_ = c.process(c.ctx, nil, nil)\n	}\n	c.cause = cause\n", different},
	{"the process goes on while the store refuses for good", "conductor/commit.go", "		if tries++; last ||", "		if on && tries+1 >= commitTries {\n			return nil\n		}\n		if tries++; last ||", different},
	{"rows of steps are not stored", "store/memory/commit.go", "	x.rows(c)\n", "	if !on || c.Version%5 != 0 {\n		x.rows(c)\n	}\n", ruleKept},
}

const (
	askMutants = "STEPWELL_TEST_MUTANTS" // "all": TestMutants runs
	askMutant  = "STEPWELL_MUTANT"       // the one that is on
	askRule    = "STEPWELL_MUTANT_RULE"  // TestMutant ends when it is broken
)

// Every mistake in engine, conductor, worker and store is found by the rule named for it, and the product without one breaks none. All
// are built into one program, which makes the one that it is told.
func TestMutants(t *testing.T) {
	if os.Getenv(askMutants) == "" {
		t.Skip(askMutants + " is not set: the mutants are built and run for minutes")
	}
	bin := buildMutants(t)
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if found := runMutant(t, bin, "none", ""); len(found) > 0 {
			t.Errorf("without a mistake: %q", found)
		}
	})
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			found := runMutant(t, bin, m.name, m.rule)
			if t.Logf("found by %q", found); !slices.Contains(found, m.rule) {
				t.Errorf("it is not found by %q", m.rule)
			}
		})
	}
}

// buildMutants builds this test with all mistakes.
func buildMutants(t *testing.T) (bin string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts := map[string]string{}
	for _, m := range mutants {
		if texts[m.file] == "" {
			raw, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			texts[m.file] = string(raw)
		}
		if n := strings.Count(texts[m.file], m.old); n != 1 {
			t.Fatalf("%s: %q is in %s %d times", m.name, m.old, m.file, n)
		}
		texts[m.file] = strings.Replace(texts[m.file], m.old, onFor(m), 1)
		more := filepath.Join(filepath.Dir(m.file), "mutant.go")
		texts[more] = "package " + filepath.Base(filepath.Dir(m.file)) + "\n"
		texts[more] = strings.Replace(texts[more], "\n", "\n\nimport \"os\"\n", 1) + "\nvar mutantOn = os.Getenv(\"" + askMutant + "\")\n"
	}
	overlay := map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		file := filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(file, []byte(texts[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(root, name)] = file
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "mutants.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return bin
}

// onFor is the new text, in which on asks for the mutant.
func onFor(m mutant) string {
	asks := fmt.Sprintf("(mutantOn == %q)", m.name)
	return strings.NewReplacer("if on ", "if "+asks+" ", "; on ", "; "+asks+" ", "!on", "!"+asks, "if on{", "if "+asks+"{", "(on ", "("+asks+" ").Replace(m.new)
}

// runMutant gives the rules that a mutant breaks, until the rule is among them.
func runMutant(t *testing.T, bin, name, rule string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^TestMutant$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), askMutant+"="+name, askRule+"="+rule)
	out, err := cmd.CombinedOutput()
	_, list, ok := strings.Cut(string(out), "rules: ")
	if err != nil || !ok {
		t.Fatalf("%v\n%s", err, out)
	}
	list, _, _ = strings.Cut(list, "\n")
	if name == "none" && list != "" {
		t.Logf("%s", out)
	}
	if list == "" {
		return nil
	}
	return strings.Split(list, "|")
}

// TestMutant is the program of TestMutants.
func TestMutant(t *testing.T) {
	if os.Getenv(askMutant) == "" {
		return // TestSuite is the test of the product as it is
	}
	found := map[string]bool{}
	l := newLab(t, Options{Budget: time.Hour, Orders: 10, Pairs: 10, Seconds: 60, Workers: 1}, suitePipelines)
	for _, test := range suiteOf(t) {
		res, err := l.Run(t.Context(), test)
		if err != nil {
			found["error: "+strings.ReplaceAll(err.Error(), "\n", " ")] = true
			continue
		}
		for _, f := range res.Findings {
			switch f.Kind {
			case Broken:
				found[f.Rule] = true
			case Different:
				found[different] = true
			}
			if os.Getenv(askMutant) == "none" && (f.Kind == Broken || f.Kind == Different) { // for who has to find out why
				fmt.Printf("%s: %+v\n", test.Name, f)
			}
		}
		if found[os.Getenv(askRule)] {
			break
		}
	}
	fmt.Println("rules: " + strings.Join(slices.Sorted(maps.Keys(found)), "|"))
}
