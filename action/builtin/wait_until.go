package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
	_ "time/tzdata" // zones are known on machines that have no list of them

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// The shortest and longest wait of util.wait_until, in hours: a minute, a week.
const (
	minHours = 0.0167
	maxHours = 168
)

func waitUntil(now func() time.Time) action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.wait_until",
			Effect:  spec.NoEffect,
			Aliases: []string{"wait_until"},
			Summary: "Waits until a time of day, a date or for some hours, and says when it woke up.",
			Doc: "Exactly one of `duration_hours` and `until_time` says how long, at most one week; `util.wait` can wait for a year. The " +
				"wait is stored: it holds no worker and survives restarts of Stepwell.\n\nA time of day is the next one that comes in `timezone`: " +
				"one that a change of clocks skips is reached when the clocks have changed, one that comes twice counts the first time. " +
				"A date without an offset is meant in `timezone`. One in the past ends the step at once.",
			Params: []spec.Field{
				{Name: "duration_hours", Type: spec.Number, Min: ptr(minHours), Max: ptr(maxHours), Doc: "How long, in hours."},
				{Name: "until_time", Type: spec.String, Min: ptr(1), Doc: "Until when: `18:30`, `18:30:00`, `2027-01-31T18:00:00` or with an offset as in RFC 3339."},
				{Name: "timezone", Type: spec.String, Default: "UTC", Doc: "IANA name of the zone of `until_time`, such as `Europe/Berlin`."},
			},
			Outputs: []spec.Field{
				{Name: "waited", Type: spec.Boolean, Doc: "Whether there was something to wait for."},
				{Name: "scheduled_wake_time", Type: spec.Time, Doc: "The time at which the wait was to end, in UTC."},
				{Name: "actual_wake_time", Type: spec.Time, Doc: "When the step continued, in UTC."},
				{Name: "wait_duration_seconds", Type: spec.Number, Doc: "From when the step started to when it continued."},
			},
			Examples: []spec.Example{
				{Title: "the next evening", YAML: "id: evening\naction: util.wait_until\nparams: {until_time: \"18:30\", timezone: Europe/Berlin}"},
				{Title: "half an hour", YAML: "id: settle\naction: util.wait_until\nparams: {duration_hours: 0.5}"},
			},
		},
		Handler: waitUntilHandler{now},
	}
}

type waitUntilHandler struct{ now func() time.Time }

func (waitUntilHandler) waits() {}

// vigil is the state of a wait.
type vigil struct {
	Start time.Time `json:"start"`
	Wake  time.Time `json:"wake"`
}

// Run implements action.Handler.
func (h waitUntilHandler) Run(_ context.Context, call *action.Call) (any, error) {
	now := h.now().UTC().Round(0) // the stored time outlives this process and its monotonic clock
	var v vigil
	if call.State != nil {
		if err := json.Unmarshal(call.State, &v); err != nil {
			return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "state of the wait", Err: err})
		}
	} else {
		wake, err := wakeTime(call.Params, now)
		if err != nil {
			return nil, err
		}
		v = vigil{now, wake.UTC()}
		if v.Wake.Sub(now) > maxHours*time.Hour {
			return nil, beyondWeek()
		}
	}
	if v.Wake.After(now) {
		return nil, action.Poll(v.Wake, "", v)
	}
	return map[string]any{"waited": v.Wake.After(v.Start), "scheduled_wake_time": v.Wake.Format(stamp),
		"actual_wake_time": now.Format(stamp), "wait_duration_seconds": max(now.Sub(v.Start), 0).Seconds()}, nil
}

// Validate implements action.Validator. Parameters that hold templates are not among params.
func (waitUntilHandler) Validate(params map[string]any) []error {
	var problems []error
	zone, err := zoneOf(params)
	if err != nil {
		problems = append(problems, err)
		zone = time.UTC
	}
	if text, ok := params["until_time"].(string); ok {
		if _, err := parseUntil(text, zone, time.Time{}); err != nil {
			problems = append(problems, err)
		}
		if params["duration_hours"] != nil {
			problems = append(problems, eitherOr("both"))
		}
	}
	return problems
}

func eitherOr(given string) error {
	return action.Invalid("give exactly one of them", "%s of duration_hours and until_time are given", given)
}

func wakeTime(params map[string]any, now time.Time) (time.Time, error) {
	hours, until := params["duration_hours"], params["until_time"]
	switch {
	case hours == nil && until == nil:
		return now, eitherOr("none")
	case hours != nil && until != nil:
		return now, eitherOr("both")
	case hours != nil:
		return afterHours(hours, now)
	}
	zone, err := zoneOf(params)
	if err != nil {
		return now, err
	}
	text, ok := until.(string)
	if !ok {
		return now, action.Invalid(wakeHint, "until_time: is %s, not a text", typeName(until))
	}
	return parseUntil(text, zone, now)
}

func afterHours(value any, now time.Time) (time.Time, error) {
	var hours float64
	switch n := number(value).(type) {
	case int64:
		hours = float64(n)
	case float64:
		hours = n
	default:
		return now, action.Invalid("", "duration_hours: is %s, not a number", typeName(value))
	}
	if !(hours >= minHours && hours <= maxHours) {
		return now, action.Invalid("", "duration_hours: must be from %v to %v", minHours, maxHours)
	}
	return now.Add(time.Duration(math.Round(hours * float64(time.Hour)))), nil
}

func zoneOf(params map[string]any) (*time.Location, error) {
	name, ok := params["timezone"].(string)
	if !ok && params["timezone"] != nil {
		return nil, action.Invalid(zoneHint, "timezone: is %s, not a text", typeName(params["timezone"]))
	}
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, action.Invalid(zoneHint, "timezone: there is no zone %q", name)
	}
	return zone, nil
}

const (
	zoneHint = "write a name such as UTC or Europe/Berlin"
	wakeHint = "write 18:30, 18:30:00, 2027-01-31T18:00:00 or 2027-01-31T18:00:00+01:00"
)

// parseUntil reads a time of day, of which the next after now is meant, or a date with a time.
func parseUntil(text string, zone *time.Location, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{"15:04", "15:04:05"} {
		if clock, err := time.Parse(layout, text); err == nil {
			return next(clock, zone, now)
		}
	}
	if t, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "T", 1)); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if wall, err := time.Parse(layout, text); err == nil {
			return instant(wall, zone), nil
		}
	}
	return now, action.Invalid(wakeHint, "until_time: %q is neither a time of day nor a date", text)
}

// next is the first time after now at which the clocks of the zone show the time of day.
func next(clock time.Time, zone *time.Location, now time.Time) (time.Time, error) {
	today := now.In(zone)
	for day := range 3 { // a zone that changes sides of the date line leaves a day out
		wall := time.Date(today.Year(), today.Month(), today.Day()+day, clock.Hour(), clock.Minute(), clock.Second(), 0, time.UTC)
		if t := instant(wall, zone); t.After(now) {
			return t, nil
		}
	}
	return now, action.Fail(errors.New("until_time: no such time comes in the next three days"))
}

// instant is when the clocks of a zone show the wall time: the first time if they show it twice, and when they are put
// forward if they skip it.
func instant(wall time.Time, zone *time.Location) time.Time {
	_, before := wall.Add(-24 * time.Hour).In(zone).Zone()
	_, after := wall.Add(24 * time.Hour).In(zone).Zone()
	early, late := wall.Add(-time.Duration(before)*time.Second), wall.Add(-time.Duration(after)*time.Second)
	switch {
	case shows(early, wall, zone):
		return early
	case shows(late, wall, zone):
		return late
	}
	change, _ := early.In(zone).ZoneBounds()
	return change
}

// shows reports whether the clocks of a zone show the wall time at t.
func shows(t, wall time.Time, zone *time.Location) bool {
	_, offset := t.In(zone).Zone()
	return t.Add(time.Duration(offset) * time.Second).Equal(wall)
}

func beyondWeek() error {
	return action.Fail(&stepwell.Error{Code: stepwell.CodeLimit, Message: "until_time: is more than one week away",
		Hint: "util.wait waits for up to one year: until: 2027-01-31T18:00:00Z"})
}
