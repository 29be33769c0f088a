package resource_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
)

// room is a kind of objects that is described by its tags alone.
type room struct {
	Name    string          `json:"name" minLength:"1" maxLength:"10"`
	Kind    string          `json:"kind,omitempty" enum:"office,hall"`
	Seats   int             `json:"seats,omitempty" minimum:"0" maximum:"50" doc:"How many there are."`
	Tags    []string        `json:"tags,omitempty" maxItems:"2" maxLength:"5"`
	Opens   resource.Time   `json:"opens_at,omitzero"`
	Near    *door           `json:"near,omitempty"`
	Details resource.Object `json:"details,omitempty"`
}

type door struct {
	Seats int `json:"seats" minimum:"0"`
}

// TestCheck: tags are the one description of a field, and what they refuse is told with its place.
func TestCheck(t *testing.T) {
	for want, r := range map[string]room{
		"":                                  {Name: "ärger", Kind: "hall", Seats: 50, Tags: []string{"a", "b"}, Near: &door{}, Details: resource.Object{"any": 1}},
		"name must have at least 1":         {},
		"name must have at most 10":         {Name: strings.Repeat("n", 11)},
		"kind must be one of office, hall":  {Name: "x", Kind: "barn"},
		"seats must be at most 50, not 51":  {Name: "x", Seats: 51},
		"tags must have at most 2 elements": {Name: "x", Tags: []string{"a", "b", "c"}},
		"tags[1] must have at most 5":       {Name: "x", Tags: []string{"a", "bbbbbb"}},
		"near.seats must be at least 0":     {Name: "x", Near: &door{Seats: -1}},
		"it cannot be written as JSON":      {Name: "x", Details: resource.Object{"c": make(chan int)}},
	} {
		err := resource.Check(&r)
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v (%s), want %s", err, stepwell.HintOf(err), want)
		}
	}
	if err := resource.Check(&room{Name: "x", Seats: 51}); stepwell.HintOf(err) != "How many there are." {
		t.Errorf("the hint of a bound is %q", stepwell.HintOf(err))
	}
}
