package scenario

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Report is what came of all tests.
type Report struct {
	Passed   int        `json:"passed"`
	Failed   int        `json:"failed"`
	Tests    []*Result  `json:"tests" nullable:"false"`
	Coverage []Coverage `json:"coverage" nullable:"false"`
}

// Add adds a result.
func (r *Report) Add(one *Result) {
	if r.Tests = append(r.Tests, one); one.Passed {
		r.Passed++
	} else {
		r.Failed++
	}
}

// WriteText writes the report for people: failures in full, and with all also tests that passed.
func (r *Report) WriteText(w io.Writer, all bool) error {
	b := &strings.Builder{}
	file := ""
	for _, t := range r.Tests {
		if t.File != file && (all || !t.Passed) {
			fmt.Fprintln(b, t.File)
			file = t.File
		}
		switch {
		case t.Passed && all:
			fmt.Fprintf(b, "  ✔ %s\n", t.Name)
		case !t.Passed:
			fmt.Fprintf(b, "  ✘ %s\n", t.Name)
			t.writeFailures(b)
		}
		for _, note := range t.Notes {
			if all || !t.Passed {
				fmt.Fprintf(b, "    note: %s\n", note)
			}
		}
	}
	for i := range r.Coverage {
		c := &r.Coverage[i]
		fmt.Fprintf(b, "%s: %d of %d decisions covered (%.0f %%)\n", c.Pipeline, c.Covered, c.Total, c.Percent())
		for _, m := range c.Missing {
			if all {
				fmt.Fprintf(b, "    %s\n", m)
			}
		}
	}
	fmt.Fprintf(b, "%d passed, %d failed\n", r.Passed, r.Failed)
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Result) writeFailures(b *strings.Builder) {
	var events []string
	for i := range t.Failures {
		f := &t.Failures[i]
		fmt.Fprintf(b, "    %s\n", f.Problem)
		for _, why := range f.Why {
			fmt.Fprintf(b, "      why %s: %s\n", f.Step, why)
		}
		if len(f.Events) > 0 {
			events = f.Events
		}
	}
	if len(events) > 0 {
		fmt.Fprintf(b, "    last events:\n")
	}
	for _, e := range events {
		fmt.Fprintf(b, "      %s\n", e)
	}
}

type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report in JUnit's XML: a suite for each file. Times are those of the tests' own clocks.
func (r *Report) WriteJUnit(w io.Writer) error {
	out := junitSuites{Tests: len(r.Tests), Failures: r.Failed}
	for _, t := range r.Tests {
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != t.File {
			out.Suites = append(out.Suites, junitSuite{Name: t.File})
		}
		s := &out.Suites[len(out.Suites)-1]
		c := junitCase{Name: t.Name, Class: t.File, File: t.File, Line: t.Line, Time: strconv.FormatFloat(t.Seconds, 'f', 3, 64)}
		if s.Tests++; !t.Passed {
			s.Failures++
			b := &strings.Builder{}
			t.writeFailures(b)
			c.Failure = &junitFailure{t.Failures[0].Message, b.String()}
		}
		s.Cases = append(s.Cases, c)
	}
	raw, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(append([]byte(xml.Header), raw...), '\n'))
	return err
}
