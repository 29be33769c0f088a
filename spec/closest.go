package spec

import "strings"

const (
	longestName   = 64     // longer names are compared by nothing but equality
	mostCompared  = 20_000 // candidates looked at by one call
	shortestAlike = 3      // in shorter names one letter may differ, in those of one letter none
)

// Closest is the candidate most likely meant by name, "" when none is near. Case, - and _ are ignored; a candidate
// that equals name behind its last dot ("http" for "util.http"), or that begins with name, is near too. The first of
// equals wins. At most 20,000 names are compared.
func Closest(name string, among []string) string {
	wanted := fold(name)
	if wanted == "" || len(wanted) > longestName {
		return ""
	}
	best, bestDistance := "", allowance(len(wanted))+1
	for i, candidate := range among {
		if i == mostCompared {
			break
		}
		have := fold(candidate)
		if have == wanted {
			return candidate
		}
		if d := distanceTo(wanted, have, bestDistance-1); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return byPart(wanted, among)
	}
	return best
}

// DidYouMean is the hint that names the closest name, "" when none is near.
func DidYouMean(name string, among []string) string {
	if close := Closest(name, among); close != "" {
		return "did you mean " + close + "?"
	}
	return ""
}

// allowance is how many letters may differ.
func allowance(length int) int {
	switch {
	case length < 2:
		return 0
	case length < shortestAlike:
		return 1
	case length < 6:
		return 2
	}
	return length / 3
}

// byPart finds a candidate that contains the name as its last part or as its beginning.
func byPart(wanted string, among []string) string {
	for i, candidate := range among {
		if i == mostCompared {
			break
		}
		have := fold(candidate)
		if dot := strings.LastIndexByte(have, '.'); dot >= 0 && have[dot+1:] == wanted {
			return candidate
		}
		if len(wanted) >= shortestAlike && (strings.HasPrefix(have, wanted) || len(have) >= 4 && strings.HasPrefix(wanted, have)) {
			return candidate
		}
	}
	return ""
}

func fold(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "-", "_"))
}

// distanceTo counts the letters to change, add, drop or swap with a neighbour (optimal string
// alignment); most+1 stands for everything above most.
func distanceTo(a, b string, most int) int {
	if most < 0 || len(b) > longestName || len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	var rows [3][longestName + 1]int
	before, previous, current := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		previous[j] = j
	}
	for i := range len(a) {
		current[0] = i + 1
		smallest := current[0]
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			d := min(previous[j]+cost, previous[j+1]+1, current[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			current[j+1] = d
			smallest = min(smallest, d)
		}
		if smallest > most {
			return most + 1
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
