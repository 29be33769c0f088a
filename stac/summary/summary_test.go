package summary

import (
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/item"
)

func TestExtent(t *testing.T) {
	for _, c := range []struct {
		boxes [][]float64
		want  []float64
	}{
		{[][]float64{{1, 2, 3, 4}, {-5, 3, 2, 9}}, []float64{-5, 2, 3, 9}},
		{[][]float64{{1, 2, 10, 3, 4, 20}, {0, 0, 5, 1, 1, 15}}, []float64{0, 0, 5, 3, 4, 20}},
		{[][]float64{{1, 2, 10, 3, 4, 20}, {0, 0, 1, 1}}, []float64{0, 0, 3, 4}},
		{[][]float64{{0, 0, 1, 1}, {1, 2, 10, 3, 4, 20}}, []float64{0, 0, 3, 4}},
		{[][]float64{{170, -10, -170, 10}, {175, 0, -160, 20}}, []float64{170, -10, -160, 20}},
		{[][]float64{{170, -10, -170, 10}, {160, 0, 165, 20}}, []float64{160, -10, -170, 20}},
		{[][]float64{{170, -10, -170, 10}, {-175, 0, -150, 20}}, []float64{170, -10, -150, 20}},
		{[][]float64{{170, -10, -170, 10}, {-20, 0, 20, 20}}, []float64{-180, -10, 180, 20}},
		{nil, nil},
	} {
		s := &Summary{}
		for _, box := range c.boxes {
			s.addBox(box)
		}
		if got := s.box(); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.boxes, got, c.want)
		}
	}
	bare, err := item.Parse([]byte(`{"geometry":{"type":"Point","coordinates":[7,7]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := BoxOf(bare); !slices.Equal(got, []float64{7, 7, 7, 7}) {
		t.Errorf("from the geometry: %v", got)
	}
}

func TestLater(t *testing.T) {
	order := strings.Fields("0.9.0 1.0.0-beta.2 1.0.0-rc.1 1.0.0 1.0.1 1.1.0-beta.1 1.1.0 1.10.0")
	for i, a := range order {
		for j, b := range order {
			if Later(a, b) != (i > j) {
				t.Errorf("Later(%s, %s)", a, b)
			}
		}
	}
}
