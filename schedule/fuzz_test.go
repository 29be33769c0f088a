package schedule

import (
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// FuzzParse: no panic; an error has a code, a hint and a place inside the text; an accepted schedule goes forward.
func FuzzParse(f *testing.F) {
	for _, spec := range wrong {
		f.Add(spec.Cron, spec.Every, spec.At, spec.Zone)
	}
	for _, e := range walked {
		f.Add(e.cron, "", "", "Africa/Cairo")
	}
	f.Add("", "1h30m", "", "")
	f.Add("", "", "2026-03-29T02:30", "Europe/Berlin")
	f.Add("", "", "2026-03-29T02:30:00.5Z", "Europe/Berlin")
	f.Add("*/7 30-32 1,2 L-3,15W,LW ? 5L,MON#2", "", "", "Australia/Lord_Howe")
	f.Fuzz(func(t *testing.T, cron, every, at, zone string) {
		spec := Spec{Cron: cron, Every: every, At: at, Zone: zone}
		s, err := Parse(spec)
		if err != nil {
			place, ok := errors.AsType[*Error](err)
			if !ok || stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" || place.Message == "" ||
				place.Column < 0 || place.Column > 1+utf8.RuneCountInString(place.Text) {
				t.Fatalf("%+v: %#v", spec, err)
			}
			return
		}
		from := date(2026, 3, 1)
		warnings := s.Warnings(from)
		first, ok := s.Next(from)
		if !ok && (len(warnings) != 1 || warnings[0].Kind != WarnNever) {
			t.Fatalf("%+v never fires, and says %v", spec, warnings)
		}
		for at, next := first, true; next && at.Before(from.AddDate(0, 2, 0)); {
			var later time.Time
			if later, next = s.Next(at); next && !later.After(at) {
				t.Fatalf("%+v: %v after %v", spec, later, at)
			}
			at = later.Add(time.Hour)
		}
	})
}
