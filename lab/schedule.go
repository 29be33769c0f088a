package lab

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/sim"
)

// fault is one thing that goes wrong.
type fault struct {
	sim.Passage
	fate sim.Fate
}

// schedule is what disturbs one run.
type schedule struct {
	seed   uint64
	faults []fault
	second bool // the second fault is chosen by what passes after the first one
}

// String is the name for --replay: dies@after-report:deploy#1+seed=7.
func (s schedule) String() string {
	var parts []string
	for _, f := range s.faults {
		parts = append(parts, string(f.fate)+"@"+f.Passage.String())
	}
	if s.seed != 0 {
		parts = append(parts, fmt.Sprint("seed=", s.seed))
	}
	return strings.Join(parts, "+")
}

var faultForm = regexp.MustCompile(`^([a-z]+)@([a-z-]+)(?::(.*))?#([0-9]+)$`)

// parseSchedule reads what String writes. Keys of steps may hold anything but a +.
func parseSchedule(name string) (s schedule, err error) {
	for part := range strings.SplitSeq(name, "+") {
		if seed, ok := strings.CutPrefix(part, "seed="); ok {
			if s.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
				return s, notSchedule(name)
			}
			continue
		}
		m := faultForm.FindStringSubmatch(part)
		if m == nil {
			return s, notSchedule(name)
		}
		n, err := strconv.Atoi(m[4])
		f := fault{sim.Passage{Point: sim.Point(m[2]), Key: m[3], N: n}, sim.Fate(m[1])}
		known := slices.ContainsFunc(sim.Fates, func(at sim.FatesOf) bool { return at.Point == f.Point && slices.Contains(at.Fates, f.fate) })
		if err != nil || !known {
			return s, notSchedule(name)
		}
		s.faults = append(s.faults, f)
	}
	return s, nil
}

func notSchedule(name string) error {
	return stepwell.Invalid("a report of the lab names them, like dies@after-report:deploy#1", "%q is not a schedule", name)
}

// crash reports whether the process dies once, and nothing else happens.
func (s schedule) crash() bool {
	return s.seed == 0 && len(s.faults) == 1 && s.faults[0].fate == sim.Dies
}

// fate is what the schedule has become of a passage.
func (s schedule) fate(p sim.Passage) sim.Fate {
	for i := range s.faults {
		if s.faults[i].Passage == p {
			return s.faults[i].fate
		}
	}
	return sim.Passes
}

// maxNameless is how many commits or pushes of a run are disturbed, one by one.
const maxNameless = 200

// singles are the schedules with one fault, from the passages of an undisturbed run: of the iterations of a step the first, the last
// and one in the middle, of very many commits and pushes as many, evenly. all counts those that there are.
func singles(passages []sim.Passage) (list []schedule, all int) {
	groups := map[string][]int{}
	var order []string
	for i, p := range passages {
		class := fmt.Sprint(p.Point, " ", iteration.ReplaceAllString(p.Key, "[]"), " ", p.N)
		if p.Key == "" {
			class = string(p.Point)
		}
		if groups[class] == nil {
			order = append(order, class)
		}
		groups[class] = append(groups[class], i)
	}
	var chosen []int
	for _, class := range order {
		group, most := groups[class], 3
		if passages[group[0]].Key == "" {
			most = maxNameless
		}
		for i := range min(most, len(group)) {
			at := i
			if len(group) > most {
				at = i * (len(group) - 1) / (most - 1)
			}
			chosen = append(chosen, group[at])
		}
	}
	slices.Sort(chosen)
	for i, p := range passages {
		for _, at := range sim.Fates {
			if at.Point != p.Point {
				continue
			}
			all += len(at.Fates)
			if _, in := slices.BinarySearch(chosen, i); in {
				for _, fate := range at.Fates {
					list = append(list, schedule{faults: []fault{{p, fate}}})
				}
			}
		}
	}
	return list, all
}

// iteration is the part of a key that names one of many.
var iteration = regexp.MustCompile(`\[[^\]]*\]`)
