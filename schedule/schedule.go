package schedule

import "time"

// Skipped is the policy for a firing at a time that is missing because clocks went forward.
type Skipped string

// Policies for a missing time. The zero value is run_after, and skip for a cron expression that runs in every hour of
// the day.
const (
	RunAfter    Skipped = "run_after" // fires at the first instant after the gap; several missing times fire once
	SkipMissing Skipped = "skip"      // does not fire
)

// Repeated says which of two equal times of the clock fires after clocks went back.
type Repeated string

// Which of two equal times fires. The zero value is first, and both for a cron expression that runs in
// every hour of the day.
const (
	First  Repeated = "first"
	Second Repeated = "second"
	Both   Repeated = "both"
)

// Spec describes a schedule. Exactly one of Cron, Every and At is needed.
type Spec struct {
	// Cron is a cron expression or one of the @ names (see the package comment).
	Cron string
	// Every is an interval such as 90s, 1h30m or 1d, in whole seconds: w, d, h, m and s, where a day
	// is 24 hours. The firings lie on a grid that starts at NotBefore, or else at 1970-01-01T00:00Z, so they do
	// not drift, whenever somebody asks.
	Every string
	// At fires once: an instant (2026-05-01T09:00:00+02:00), or a time of the clock in Zone
	// (2026-05-01T09:00, seconds optional, a space for the T). Fractions of a second are rounded up.
	At string

	// Zone is an IANA name such as Europe/Berlin. Defaults to UTC.
	Zone     string
	Skipped  Skipped  // Defaults to run_after, see the package comment
	Repeated Repeated // Defaults to first, see the package comment

	NotBefore time.Time     // the first moment at which it may fire. Defaults to none
	NotAfter  time.Time     // the last moment at which it may fire. Defaults to none
	MaxRuns   int           // how often it fires, counted by the caller. Defaults to no limit
	Jitter    time.Duration // firings are spread over this long after their time, see Schedule.Jitter. Defaults to none
}

// Schedule is a Spec that was understood.
type Schedule struct {
	spec          Spec
	zone          *time.Location
	rule          rule
	first, latest int64 // unix seconds between which it fires, inclusive
}

// rule gives the first firing at or after an instant, in Unix seconds.
type rule interface {
	next(from int64) (int64, bool)
}

// The limits of a time; RFC 3339 and JSON end there too.
var (
	firstSecond  = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC).Unix()
	latestSecond = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC).Unix()
)

// Parse checks and compiles a Spec. An error is a *stepwell.Error with CodeInvalid and a hint; its
// chain holds an *Error with the place.
func Parse(spec Spec) (*Schedule, error) {
	s := &Schedule{spec: spec, first: firstSecond, latest: latestSecond}
	if problem := s.parse(); problem != nil {
		return nil, problem.invalid()
	}
	return s, nil
}

func (s *Schedule) parse() *Error {
	var problem *Error
	if problem = checkSpec(s.spec); problem != nil {
		return problem
	}
	if s.zone, problem = loadZone(s.spec.Zone); problem != nil {
		return problem
	}
	if !s.spec.NotBefore.IsZero() {
		s.first = max(s.first, ceil(s.spec.NotBefore))
	}
	if !s.spec.NotAfter.IsZero() {
		s.latest = min(s.latest, s.spec.NotAfter.Unix())
	}
	switch {
	case s.spec.Every != "":
		s.rule, problem = s.parseEvery("every", s.spec.Every)
	case s.spec.At != "":
		s.rule, problem = s.parseAt(s.spec.At)
	default:
		s.rule, problem = s.parseCron(s.spec.Cron)
	}
	return problem
}

func checkSpec(spec Spec) *Error {
	kinds := 0
	for _, text := range []string{spec.Cron, spec.Every, spec.At} {
		if text != "" {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return &Error{Field: "schedule", Message: "does not say when it fires", Hint: "give one of cron, every and at"}
	case kinds > 1:
		return &Error{Field: "schedule", Message: "has more than one of cron, every and at", Hint: "make it two schedules"}
	case spec.MaxRuns < 0:
		return &Error{Field: "max_runs", Message: "is negative", Hint: "leave it out for no limit"}
	case spec.Jitter < 0:
		return &Error{Field: "jitter", Message: "is negative", Hint: "leave it out for none"}
	case !spec.NotBefore.IsZero() && !spec.NotAfter.IsZero() && spec.NotAfter.Before(spec.NotBefore):
		return &Error{Field: "not_after", Message: "lies before not_before", Hint: "swap the two"}
	}
	if problem := oneOf("skipped", spec.Skipped, RunAfter, SkipMissing); problem != nil {
		return problem
	}
	return oneOf("repeated", spec.Repeated, First, Second, Both)
}

// Spec returns the schedule's source.
func (s *Schedule) Spec() Spec { return s.spec }

// Zone is the schedule's time zone.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Next is the first firing after the given instant, false when there is none (within 41 years).
// MaxRuns plays no part, see Exhausted; neither does jitter.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	from := max(after.Unix(), s.first-1) // Unix rounds down, so the next whole second comes after
	if from >= s.latest {
		return time.Time{}, false
	}
	at, ok := s.rule.next(from + 1)
	if !ok || at > s.latest {
		return time.Time{}, false
	}
	return time.Unix(at, 0).In(s.zone), true
}

// Exhausted reports whether a schedule that has fired so many times is at its end by MaxRuns.
func (s *Schedule) Exhausted(runs int) bool {
	return s.spec.MaxRuns > 0 && runs >= s.spec.MaxRuns
}

// ceil is the first whole second that is not before t.
func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
