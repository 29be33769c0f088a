package stepwell

import (
	"regexp"
	"testing"
)

func TestTraceparent(t *testing.T) {
	const id = "01a202bb-9968-7657-9145-842ad9aa1fb7"
	first, again, second := Traceparent(id, 3, 1, 1000), Traceparent(id, 3, 1, 1000), Traceparent(id, 3, 2, 1000)
	if !regexp.MustCompile(`^00-01a202bb996876579145842ad9aa1fb7-[0-9a-f]{16}-01$`).MatchString(first) || first != again || first == second {
		t.Errorf("%s, %s, %s", first, again, second)
	}
	for _, id := range []string{"", "execution", "00000000-0000-0000-0000-000000000000", "01a202bb-9968-7657-9145-842ad9aa1f"} {
		if got := Traceparent(id, 0, 1, 1); got != "" {
			t.Errorf("%q: %s", id, got)
		}
	}
}
