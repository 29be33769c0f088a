package scenario

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/spec"
)

// Suffixes are the ends of the names of test files.
var Suffixes = []string{".test.yaml", ".test.yml", ".test.json"}

const maxTests = 10_000

// decoder reads a test file.
type decoder struct {
	spec.Decoder
	file string
}

// Parse reads the tests of a file. Problems have their places; Problems.Err says whether the tests can run.
func Parse(file string, src []byte) ([]*Test, spec.Problems) {
	n, report := definition.Nodes(file, src)
	if n == nil {
		return nil, report.Problems()
	}
	d := &decoder{Decoder: spec.Decoder{Report: report}, file: file}
	var f fileKeys
	var shared []*mock
	var tests spec.Entry
	d.Struct(n, "", shapes.file, &f, func(e spec.Entry) bool {
		switch e.Key {
		case "mock":
			shared = d.mocks(e)
		case "tests":
			tests = e
		default:
			return false
		}
		return true
	})
	if tests.Value == nil || tests.Value.Kind != spec.ListNode || len(tests.Value.Items) == 0 {
		d.Fail(spec.Pos{Line: 1, Column: 1}, "tests", "the file has no tests", "write tests: and a list below it")
		return nil, report.Problems()
	}
	var out []*Test
	for i, item := range tests.Value.Items {
		for _, t := range d.table(item, spec.ElementPath("tests", i), &f.commonKeys) {
			t.shared, t.actions = shared, f.Actions
			out = append(out, t)
		}
		if len(out) > maxTests {
			d.Fail(item.Pos, "tests", fmt.Sprintf("the file has more than %d tests", maxTests), "split it")
			break
		}
	}
	d.unique(out)
	return out, report.Problems()
}

// unique refuses tests of one name: reports and snapshots name them.
func (d *decoder) unique(tests []*Test) {
	seen := map[string]*Test{}
	for _, t := range tests {
		if first := seen[t.Name]; first != nil {
			d.Fail(t.Pos, "name", fmt.Sprintf("another test is called %q", t.Name), fmt.Sprintf("it is in line %d; of a table, put a value of the row into the name", first.Pos.Line))
		}
		seen[t.Name] = t
	}
}

// table reads a test once for each row of its table.
func (d *decoder) table(n *spec.Node, path string, common *commonKeys) (out []*Test) {
	e := n.Entry("table")
	if e.Value == nil {
		if t := d.test(n, path, common, nil); t != nil {
			out = append(out, t)
		}
		return out
	}
	if e.Value.Kind != spec.ListNode || len(e.Value.Items) == 0 {
		d.Fail(e.At(), spec.MemberPath(path, "table"), "table must be a list of rows, not "+e.Value.Describe(), "")
		return nil
	}
	for i, item := range e.Value.Items {
		at := spec.ElementPath(spec.MemberPath(path, "table"), i)
		row, ok := d.Value(item, at, "").(map[string]any)
		if !ok {
			d.Fail(item.Pos, at, "a row must be a mapping of names to values, not "+item.Describe(), "")
			continue
		}
		before := d.errors()
		if t := d.test(d.fill(n, path, row), path, common, row); t != nil {
			out = append(out, t)
		}
		if d.errors() > before {
			break // the others would say the same again
		}
	}
	return out
}

// errors counts the problems that are no warnings.
func (d *decoder) errors() (n int) {
	for i := range d.Found {
		if !d.Found[i].Warning {
			n++
		}
	}
	return n
}

// test reads a test.
func (d *decoder) test(n *spec.Node, path string, common *commonKeys, row map[string]any) *Test {
	t := &Test{File: d.file, Pos: n.Pos, row: row}
	var k testKeys
	var fires spec.Entry
	d.Struct(n, path, shapes.test, &k, func(e spec.Entry) bool {
		switch e.Key {
		case "name":
			t.Pos = e.At()
			return false
		case "table":
		case "mock":
			t.own = d.mocks(e)
		case "when":
			t.planned = d.plans(e, path)
		case "assert":
			t.asserts = d.asserts(e, path)
		case "expect":
			t.expect = d.expectation(e, path)
		case "items":
			t.items = d.items(e, path)
		case "fires":
			fires = e
		case "snapshot":
			t.snapshot = d.snapshots(e, path)
		default:
			return false
		}
		return true
	})
	if t.Name = k.Name; t.Name == "" {
		d.Fail(n.Pos, path, "the test has no name", "write name: and what must be true")
	}
	t.At = d.time(n, path, cmp.Or(k.At, common.At), "at")
	t.Params, t.Secrets = merged(common.Params, k.Params), merged(common.Secrets, k.Secrets)
	t.real, t.unmocked = append(common.Real, k.Real...), cmp.Or(k.Unmocked, common.Unmocked)
	if k.Schedule != nil {
		t.timing = d.timing(n.Entry("schedule"), path, k.Schedule, fires)
		return t
	}
	if fires.Value != nil {
		d.Fail(fires.Pos, path, "fires without schedule", "name the schedule: schedule: {expression: \"30 2 * * *\"}")
	}
	t.foreign, t.params = k.Pipeline != "" && k.Pipeline != common.Pipeline, map[string]bool{}
	for name := range k.Params {
		t.params[name] = true
	}
	t.Pipeline = d.pipeline(cmp.Or(k.Pipeline, common.Pipeline), t.Pos, path)
	return t
}

func merged[V any](under, over map[string]V) map[string]V {
	out := map[string]V{}
	for _, m := range []map[string]V{under, over} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// time reads a moment; zero where none is given.
func (d *decoder) time(n *spec.Node, path, text, key string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		pos := n.Pos
		if e := n.Entry(key); e.Value != nil {
			pos = e.At()
		}
		d.Fail(pos, spec.MemberPath(path, key), fmt.Sprintf("%s is %s, not a time", key, spec.Quote(text)), "write it like 2026-03-28T22:00:00+01:00")
	}
	return at
}

// pipeline is the file of a pipeline: the one named, or the one beside the test file with its name.
func (d *decoder) pipeline(name string, pos spec.Pos, path string) string {
	dir := filepath.Dir(d.file)
	if name != "" {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	base := filepath.Base(d.file)
	for _, suffix := range Suffixes {
		base = strings.TrimSuffix(base, suffix)
	}
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		if file := filepath.Join(dir, base+ext); isFile(file) {
			return file
		}
	}
	d.Fail(pos, path, "the test names no pipeline, and there is no "+base+".yaml beside it", "write pipeline: and its file")
	return ""
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// timing reads the test of a schedule.
func (d *decoder) timing(e spec.Entry, path string, k *timingKeys, fires spec.Entry) *timing {
	t := &timing{pos: e.Pos, misfire: schedule.Misfire(k.Misfire)}
	var err error
	t.Schedule, err = schedule.Parse(schedule.Spec{Cron: k.Expression, Every: k.Every, At: k.At, Zone: k.Timezone, Skipped: schedule.Skipped(k.Skipped), Repeated: schedule.Repeated(k.Repeated)})
	if err != nil {
		d.Fail(e.At(), spec.MemberPath(path, "schedule"), err.Error(), stepwell.HintOf(err))
		return nil
	}
	t.down = d.time(e.Value, spec.MemberPath(path, "schedule"), k.DownUntil, "down_until")
	if fires.Value == nil || fires.Value.Kind != spec.ListNode {
		d.Fail(e.Pos, path, "the test of a schedule says when it fires", "write fires: and a list of times")
		return nil
	}
	for _, item := range fires.Value.Items {
		at, err := time.Parse(time.RFC3339, item.Text)
		if err != nil || item.Kind != spec.ScalarNode {
			d.Fail(item.Pos, spec.MemberPath(path, "fires"), item.Describe()+" is not a time", "write it like 2026-03-29T03:00:00+02:00")
			continue
		}
		t.fires = append(t.fires, firing{at, item.Pos})
	}
	return t
}

var snapshotKinds = []string{"plan", "calls", "history", "outputs"}

func (d *decoder) snapshots(e spec.Entry, path string) (kinds []string) {
	list := []*spec.Node{e.Value}
	if e.Value.Kind == spec.ListNode {
		list = e.Value.Items
	}
	for _, n := range list {
		if kind := d.Choice(spec.Entry{Key: "snapshot", Pos: n.Pos, Value: n}, path, snapshotKinds...); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// items reads the items of sources: a list, or one file of JSON, of lines, or of lists.
func (d *decoder) items(e spec.Entry, path string) map[string]*spec.Node {
	if e.Value.Kind != spec.MapNode {
		d.Fail(e.At(), spec.MemberPath(path, "items"), "items must be a mapping of steps to their items, not "+e.Value.Describe(), "")
		return nil
	}
	out := map[string]*spec.Node{}
	for _, inner := range e.Value.Entries {
		if inner.Value.Kind != spec.ListNode {
			d.Fail(inner.At(), spec.MemberPath(path, "items"), "the items of "+inner.Key+" must be a list, not "+inner.Value.Describe(), "an item is an object, or the name of a file with JSON")
			continue
		}
		out[inner.Key] = inner.Value
	}
	return out
}

// asserts reads expressions.
func (d *decoder) asserts(e spec.Entry, path string) (out []assertion) {
	list := []*spec.Node{e.Value}
	if e.Value.Kind == spec.ListNode {
		list = e.Value.Items
	}
	for _, n := range list {
		if n.Kind != spec.ScalarNode {
			d.Fail(n.Pos, spec.MemberPath(path, "assert"), "an assertion must be an expression, not "+n.Describe(), "")
			continue
		}
		if t := d.condition(n, spec.MemberPath(path, "assert")); t != nil {
			out = append(out, assertion{t, n.Pos})
		}
	}
	return out
}
