package lint

import (
	"slices"
	"strings"
	"time"
)

// PastExecutions is how many past executions tell what is usual.
const PastExecutions = 20

// stepsOf is of how many of them the steps are looked at.
const stepsOf = 5

// History collects what the past executions of a pipeline took: newest first, those that ended well and are no retries, which take over
// results. The zero value is ready.
type History struct {
	took  []time.Duration
	steps map[string][]time.Duration
}

// Add takes an execution, and reports whether what its completed steps took is wanted too.
func (h *History) Add(took time.Duration) (steps bool) {
	h.took = append(h.took, took)
	return len(h.took) <= stepsOf
}

// AddStep takes a step of the execution that was added last. Those inside of loops and groups are left out.
func (h *History) AddStep(key string, took time.Duration) {
	if strings.ContainsAny(key, "[:") {
		return
	}
	if h.steps == nil {
		h.steps = map[string][]time.Duration{}
	}
	h.steps[key] = append(h.steps[key], took)
}

// Into sets Usual and Steps to the medians.
func (h *History) Into(f *Facts) {
	f.Usual, f.Steps = median(h.took), make(map[string]time.Duration, len(h.steps))
	for key, list := range h.steps {
		f.Steps[key] = median(list)
	}
}

// median is 0 of nothing.
func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
