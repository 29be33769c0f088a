package view

import (
	"slices"
	"testing"
)

func TestTablesFit(t *testing.T) {
	titles := []string{"ID", "MESSAGE", "CREATED", "BY", "WHERE"}
	rows := func() [][]string {
		return [][]string{{"01a2090b-fb95-753e", "a message of more than thirty letters", "2026-11-23 15:33:30 UTC", "somebody", "elsewhere"}}
	}
	for width, want := range map[int]struct {
		message string
		left    []string
	}{
		0:   {"a message of more than thirty letters", []string{}},
		200: {"a message of more than thirty letters", []string{}},
		80:  {"a message of mo…", []string{"WHERE"}},
		90:  {"a message of mor…", []string{}},
		70:  {"a message of mo…", []string{"BY", "WHERE"}},
		20:  {"a message of mo…", []string{"CREATED", "BY", "WHERE"}},
	} {
		r := rows()
		left := fit(titles, r, width)
		if !slices.Equal(left, want.left) && len(left)+len(want.left) > 0 {
			t.Errorf("%d: left out %q, want %q", width, left, want.left)
		}
		if width != 90 && r[0][1] != want.message || r[0][2] != rows()[0][2] {
			t.Errorf("%d: %q", width, r[0])
		}
	}
}
