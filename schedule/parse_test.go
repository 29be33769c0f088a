package schedule

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
)

var update = flag.Bool("update", false, "write the golden files anew")

// wrong are specs that Parse refuses; testdata/errors.txt has the messages.
var wrong = []Spec{
	{}, {Cron: "@daily", Every: "1h"}, {Every: "1h", At: "2026-01-01T00:00"},
	{Cron: "@daily", MaxRuns: -1}, {Cron: "@daily", Jitter: -1},
	{Cron: "@daily", NotBefore: date(2026, 2, 1), NotAfter: date(2026, 1, 1)},
	{Cron: "@daily", Skipped: "run-after"}, {Cron: "@daily", Skipped: "never"}, {Cron: "@daily", Repeated: "twice"},
	{Cron: "@daily", Zone: "europe/berlin"}, {Cron: "@daily", Zone: "america/port of spain"}, {Cron: "@daily", Zone: "utc"},
	{Cron: "@daily", Zone: "CEST"}, {Cron: "@daily", Zone: "+02:00"}, {Cron: "@daily", Zone: "Local"}, {Cron: "@daily", Zone: "../../etc/passwd"},
	{Cron: "@daily", Zone: strings.Repeat("x", 100)},
	{Cron: " "}, {Cron: "x"}, {Cron: "* * * *"}, {Cron: "* * * * * * 2026"}, {Cron: "1 2 3 4 5 6 7 8"}, {Cron: "CRON_TZ=UTC * * * * *"},
	{Cron: strings.Repeat("1,", 600) + "1 * * * *"},
	{Cron: "60 * * * *"}, {Cron: "0 24 * * *"}, {Cron: "0 0 0 * *"}, {Cron: "0 0 32 * *"}, {Cron: "0 0 * 13 *"}, {Cron: "0 0 * * 8"}, {Cron: "60 0 0 * * *"},
	{Cron: "99999999999999999999 * * * *"}, {Cron: "+5 * * * *"}, {Cron: "1.5 * * * *"},
	{Cron: "40-20 * * * *"}, {Cron: "0 22-2 * * *"}, {Cron: "0 0 28-3 * *"}, {Cron: "0 0 * nov-feb *"}, {Cron: "0 0 * * FRI-MON"}, {Cron: "0 0 * * 5-0"}, {Cron: "0 0 * * SAT-MON"},
	{Cron: "*/0 * * * *"}, {Cron: "*/60 * * * *"}, {Cron: "*/ * * * *"}, {Cron: "*/x * * * *"}, {Cron: "5-10/6 * * * *"}, {Cron: "*/5/5 * * * *"},
	{Cron: "1,,2 * * * *"}, {Cron: ", * * * *"}, {Cron: "1- * * * *"}, {Cron: "-5 * * * *"}, {Cron: "1-2-3 * * * *"}, {Cron: "** * * * *"},
	{Cron: "? * * * *"}, {Cron: "* * * ? *"}, {Cron: "H H * * *"}, {Cron: "L * * * *"}, {Cron: "ä 5 * * *"}, {Cron: "ä/5 9 ü * *"},
	{Cron: "* * L-31 * *"}, {Cron: "* * L-x * *"}, {Cron: "* * 0W * *"}, {Cron: "* * W * *"}, {Cron: "* * 1-5W * *"}, {Cron: "* * 5L * *"},
	{Cron: "* * * * L"}, {Cron: "* * * * 15W"}, {Cron: "* * * * MON#6"}, {Cron: "* * * * MON#"}, {Cron: "* * * * #2"}, {Cron: "* * * * 8#2"}, {Cron: "* * * * 1-2L"},
	{Cron: "* * * January *"}, {Cron: "* * * * Monday"}, {Cron: "* * * * X"}, {Cron: "MON * * * *"},
	{Cron: "@reboot"}, {Cron: "@dayly"}, {Cron: "@Quarterly"}, {Cron: "@"}, {Cron: "@daily now"}, {Cron: "  @weely"},
	{Cron: "@every"}, {Cron: "@every 5"}, {Cron: "@every 1.5h"}, {Cron: "@every 500ms"}, {Cron: "@every 30m1h"}, {Cron: "@every 1h1h"}, {Cron: "@every 0s"},
	{Cron: "@every -1h"}, {Cron: "@every h"}, {Cron: "@every 1h 30m"}, {Cron: "@every 3654d"}, {Cron: "@every 9999999999w"}, {Every: "soon"}, {Every: "1y"}, {Every: "  90"},
	{At: "soon"}, {At: "2026-05-01"}, {At: "2026-02-30T09:00"}, {At: "09:00"}, {At: "0000-01-01T00:00"}, {At: "9999-12-31T23:59"},
}

func date(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }

func TestParseErrors(t *testing.T) {
	var b strings.Builder
	for _, spec := range wrong {
		s, err := Parse(spec)
		if err == nil {
			t.Errorf("%+v was taken as %+v", spec, s.Spec())
			continue
		}
		place, ok := errors.AsType[*Error](err)
		if stepwell.CodeOf(err) != stepwell.CodeInvalid || !ok || place.Field == "" || stepwell.HintOf(err) == "" {
			t.Errorf("%+v: %#v lacks a code, a place or a hint", spec, err)
		}
		fmt.Fprintf(&b, "%s\n    %s\n", err, stepwell.HintOf(err))
	}
	golden(t, "testdata/errors.txt", b.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, -update writes it):\n%s", file, diff)
	}
}

// TestFirings has an expression of every kind, with its first three firings of 2026 and its warnings.
func TestFirings(t *testing.T) {
	var b strings.Builder
	for line := range strings.Lines(expressions) {
		s := parse(t, Spec{Cron: strings.TrimSuffix(line, "\n"), Zone: "Europe/Berlin"})
		fmt.Fprintf(&b, "%-24s %s\n", s.Spec().Cron, firings(s))
		for _, w := range s.Warnings(time.Time{}) {
			fmt.Fprintf(&b, "    %s: %s (%s)\n", w.Kind, w.Message, w.Hint)
		}
	}
	for _, spec := range []Spec{
		{Every: "90m"}, {Every: "2w"}, {Cron: "@every 25h1s", NotBefore: date(2026, 1, 1), NotAfter: date(2026, 2, 1), MaxRuns: 1},
		{At: "2026-05-01T09:00", Zone: "Europe/Berlin"}, {At: "2026-05-01T09:00:00+02:00"}, {Cron: "@hourly", MaxRuns: 3},
	} {
		fmt.Fprintf(&b, "%-24s %s\n", spec.Cron+spec.Every+spec.At, firings(parse(t, spec)))
	}
	golden(t, "testdata/firings.txt", b.String())
}

func firings(s *Schedule) string {
	var all []string
	for _, at := range s.Preview(date(2026, 1, 1), 0, 3) {
		all = append(all, at.Format("Mon 01-02 15:04:05"))
	}
	return strings.Join(all, ", ")
}

const expressions = `* * * * *
*/15 * * * *
0 * * * *
30 * * * *
15,45 * * * *
0 */6 * * *
15 */4 * * *
0 */2 * * *
1-5 */2 * * *
30 2 * * 1-5
0 9,17 * * mon,FRI
* 9-17 * * *
*/10 8-18 * * MON-FRI
0 8-18 * * *
5,10 3-7,20 * * 0,6
0 12 * * SAT-SUN
0 12 * * TUE-THU
0 0 1,15 * *
0 0 2-4,11,13,22,23 * *
0 0 L * *
0 0 L,L-1,L-3 * *
0 0 15W * *
0 0 LW 1-3 *
0 0 * * FRIL
0 0 * * MON#2,WED#4
0 0 13 * 5
0 0 */10 * MON
0 0 1-31 * MON
0 0 ? * *
0 0 * 1,7 ?
0 0 29 2 *
0 0 31 2 *
0 0 30,31 2 ?
0 0 31 4,6,9,11 *
0 0 L-30 2 *
59 59 23 * * *
0 0 0,6,12,18 * * *
*/10 * * * * *
*/10 30 * * * *
5 * * * * *
1,2 2,3 2 * * *
* * * * * *
1 2,3 4-20 * * *
@hourly
@WEEKLY
@yearly
@every_minute
@every 1h30m`

func TestParseSpellings(t *testing.T) {
	for _, same := range [][]string{
		{"0 0 * * 0", "0 0 * * 7", "0 0 * * SUN", " 0\t0  * * sUn\n", "@weekly", "00 00 ? * 0", "0 0 * * 7-7", "0 0 0 * * 0"},
		{"0 0 * * 5-7", "0 0 * * 5,6,0", "0 0 * * FRI-SUN", "0 0 * * fri,SAT,7"},
		{"0 0 1 1 *", "@yearly", "@Annually ", "0 0 1 jan ?", "0 0 1 1 *\n"},
		{"*/20 * * * *", "0-59/20 * * * *", "0,20,40 * * * *", "0/20 * * * *", "40,0,20,20 * * * *"},
		{"0 0 L-0 * *", "0 0 l * ?"},
		{"0 0 * * 5L", "0 0 * * fril", "0 0 ? * FRIL"},
		{"0 0 * * 7#1", "0 0 * * SUN#1", "0 0 * * 0#1"},
		{"0 0 * * 1-6/2", "0 0 * * MON,WED,FRI"},
		{"0 0 LW * *", "0 0 lw * *"},
		{"@every 1h30m", "@every 90m", "@EVERY  5400s ", "@every\t1H30M"},
	} {
		var want []time.Time
		for i, text := range same {
			got := parse(t, Spec{Cron: text}).Preview(date(2026, 1, 1), 0, 40)
			if i == 0 {
				want = got
			} else if diff := cmp.Diff(want, got); diff != "" || len(got) != 40 {
				t.Errorf("%q is not %q: %s", text, same[0], diff)
			}
		}
	}
}

func parse(t testing.TB, spec Spec) *Schedule {
	t.Helper()
	s, err := Parse(spec)
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	return s
}
