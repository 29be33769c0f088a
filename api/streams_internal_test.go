package api

import "testing"

func TestBottleneck(t *testing.T) {
	module := func(id, from string, working float64, parallel bool) StreamModule {
		rate := 10.0
		m := StreamModule{Step: id, Status: "running", Role: "modifier", Items: &Items{}, Working: &working, InRate: &rate, OutRate: &rate, together: id, parallel: parallel}
		if m.Role = "source"; from != "" {
			m.Role, m.Inputs = "modifier", []string{from}
		}
		return m
	}
	for want, modules := range map[string][]StreamModule{
		"b":    {module("c", "b", 0.4, true), module("b", "a", 0.5, true), module("a", "", 0.1, false), module("d", "c", 0.7, false)}, // b and c are one after the other
		"d":    {module("a", "", 0.1, false), module("b", "a", 0.5, false), module("c", "b", 0.4, true), module("d", "c", 0.7, false)},
		"a":    {module("a", "", 0.99, false), module("b", "a", 0.5, false)},
		"none": {module("a", "", 0.1, false), module("b", "a", 0.05, false)},
	} {
		s := StreamList{Streams: []ItemStream{{Modules: modules}}}.finished().Streams[0]
		got := "none"
		if s.Bottleneck != nil {
			got = s.Bottleneck.Step
		}
		if got != want {
			t.Errorf("the bottleneck is %s, want %s: %+v", got, want, s.Bottleneck)
		}
		if s.Modules[0].Step != "a" {
			t.Errorf("the order is %+v", s.Modules)
		}
	}
	for message, want := range map[string]string{
		"line 12: column \"a\" is 7": "line #: column \"…\" is #", "an open \" quote": "an open \" quote", "": "", "π is 3.14": "π is #.#",
	} {
		if got := pattern(message); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
}
